import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type Identity,
  type IdentityFile,
  liveKeys,
  openIdentity,
  type Roster,
  type RosterDraft,
  type RosterMember,
  rosterDraftSchema,
  rosterSchema,
  signRoster,
} from '@countersign/protocol';
import type { Command } from 'commander';
import { z } from 'zod';
import { connectionOf } from '../connection.ts';
import { writePrivateFile, writePrivateJson } from '../embedded/private-file.ts';
import type { GatewayClient } from '../gateway-client.ts';
import { accepted, dataRoot, localGateway } from '../local-installation.ts';
import { usage } from '../output.ts';

const answerSchema = rosterSchema.extend({ signed: z.base64() });
/** Roster and beat reach a host within seconds. */
const HOSTS_WAIT_MS = 20_000;
const POLL_MS = 500;

export type RosterRole = Extract<RosterMember['role'], 'gateway' | 'audit'>;
/** `root`: identity file of the root key; `draft`: write the next roster there and stop, for a root key that is elsewhere. */
export type SignOptions = { readonly root?: string; readonly draft?: string };

/** The roster in force. */
export async function rosterInForce(gateway: GatewayClient): Promise<Roster> {
  const { signed: _, ...roster } = accepted(await gateway.request('GET', '/v1/roster', answerSchema));
  return roster;
}

/** A draft, as `keys sign` reads it. */
export function readRosterDraft(file: string): RosterDraft {
  const parsed = rosterDraftSchema.safeParse(JSON.parse(readFileSync(file, 'utf8')));
  if (parsed.success) return parsed.data;
  throw usage(`\`${file}\` is no roster`);
}

/** Opens the root key in `rootFile`. */
export const openRoot = async (rootFile: string): Promise<Identity> =>
  openIdentity(JSON.parse(readFileSync(rootFile, 'utf8')) as IdentityFile);

/** Signs with the root key in `rootFile`; overlaps begin now. Needs no network. */
export const signWithRoot = async (draft: RosterDraft, rootFile: string): Promise<Uint8Array> =>
  signRoster(await openRoot(rootFile), draft);

/** Puts a signed roster in force, here and at every member. */
export async function publishRoster(gateway: GatewayClient, signed: Uint8Array, command: Command): Promise<number> {
  const body = { signed: Buffer.from(signed).toString('base64') };
  const { version } = accepted(await gateway.request('PUT', '/v1/roster', z.object({ version: z.number() }), body));
  keepRoster(signed, command);
  return version;
}

/** Services of this machine's installation begin with this roster at their next start; another control plane's is never kept. */
function keepRoster(signed: Uint8Array, command: Command): void {
  const kept = path.join(dataRoot(command), 'private/roster.bin');
  if (connectionOf(command) === undefined && existsSync(kept)) writePrivateFile(kept, signed);
}

/** Keeps the roster in force, which whoever published it may have ended too early to do. */
export async function keepRosterInForce(gateway: GatewayClient, command: Command): Promise<void> {
  const { signed } = accepted(await gateway.request('GET', '/v1/roster', answerSchema));
  keepRoster(Buffer.from(signed, 'base64'), command);
}

/** Hosts that are there and do not keep to roster `version` after a while. */
export async function hostsBehind(gateway: GatewayClient, version: number): Promise<string[]> {
  for (const untilMs = Date.now() + HOSTS_WAIT_MS; ; await delay(POLL_MS)) {
    const behind = accepted(await gateway.hosts())
      .filter(({ rosterVersion }) => typeof rosterVersion === 'number' && rosterVersion < version)
      .map(({ host, id }) => host ?? id ?? '');
    if (behind.length === 0 || Date.now() > untilMs) return behind;
  }
}

const rootPath = (root: string | undefined, command: Command): string =>
  root ?? path.join(dataRoot(command), 'private/keys/root.json');

/** True where the named root key, or this installation's, is a file here. */
export const isRootHere = (root: string | undefined, command: Command): boolean => existsSync(rootPath(root, command));

/** The root's identity file: the named one, or this installation's. Refused when it is elsewhere. */
export function rootFileOf(root: string | undefined, command: Command): string {
  const file = rootPath(root, command);
  if (existsSync(file)) return file;
  throw usage('the root key is not here; name it with `--root`, or write a `--draft` and sign it where the key is');
}

/**
 * Signs and publishes the next roster, or writes its draft. Undefined when only a draft was written; else its version and the
 * hosts that do not keep to it yet.
 */
export async function changeRoster(
  members: RosterDraft['members'],
  { root, draft }: SignOptions,
  command: Command,
): Promise<{ version: number; behind: string[] } | undefined> {
  const gateway = localGateway(command, 'local-admin');
  const { version } = await rosterInForce(gateway);
  const next: RosterDraft = { version: version + 1, members };
  if (draft !== undefined) {
    writePrivateJson(draft, next);
    return undefined;
  }
  const rootFile = rootFileOf(root, command);
  const published = await publishRoster(gateway, await signWithRoot(next, rootFile), command);
  return { version: published, behind: await hostsBehind(gateway, published) };
}

/** Members with one key revoked. Refuses to end the last key of a role unless `last` says so. */
export function withRevoked(roster: Roster, key: string, last: boolean): RosterMember[] {
  const found = roster.members.find(({ signKey }) => signKey === key);
  if (!found) throw usage(`no key \`${key}\` in roster version ${roster.version}`);
  if (found.role !== 'gateway' && found.role !== 'audit')
    throw usage(`\`${found.role}\` keys cannot be revoked; the record depends on them`);
  const others = liveKeys(roster, found.role, Date.now()).filter(({ signKey }) => signKey !== key);
  if (others.length === 0 && !last)
    throw usage(`this is the last \`${found.role}\` key; rotate it first, or stop everything with \`--last\``);
  return roster.members.map((member) => (member.signKey === key ? { ...member, revoked: true as const } : member));
}
