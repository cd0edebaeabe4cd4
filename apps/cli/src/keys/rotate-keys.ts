import { existsSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import {
  createIdentity,
  type IdentityFile,
  openIdentity,
  type RosterMember,
  signRotation,
} from '@countersign/protocol';
import type { Command } from 'commander';
import { z } from 'zod';
import { openDataFolder } from '../embedded/data-folder.ts';
import { readEndpoints } from '../embedded/endpoints.ts';
import { writePrivateJson } from '../embedded/private-file.ts';
import { gatewayClient } from '../gateway-client.ts';
import { accepted, dataRoot, localGateway } from '../local-installation.ts';
import { EXIT, RefusedError } from '../output.ts';
import { changeRoster, keepRosterInForce, type RosterRole, rosterInForce, type SignOptions } from './roster-change.ts';

/** Private keys of earlier rotations that still open what was sealed to them. */
const MAX_EARLIER = 8;

export type MemberRole = 'host' | 'agent';

const readIdentity = (file: string): IdentityFile => JSON.parse(readFileSync(file, 'utf8')) as IdentityFile;

/** The identity file that was named, or the one of this installation. */
export function identityFileOf(role: string, id: string, named: string | undefined, command: Command): string {
  const own = role === 'host' || role === 'agent' ? `${role}-${id}` : id;
  const file = named ?? path.join(dataRoot(command), 'private/keys', `${own}.json`);
  const wrong = (why: string) => new RefusedError(`\`${file}\` ${why}`, 'countersign.cli.usage', EXIT.usage);
  if (!existsSync(file)) throw wrong('does not exist; name the identity file with `--identity`');
  const identity = readIdentity(file);
  if (identity.role !== role || identity.id !== id) throw wrong(`is the identity of ${identity.role} ${identity.id}`);
  return file;
}

/** New keys beside `file`, the same again when an earlier rotation did not end. Undefined when it ended in all but their removal. */
async function nextKeys(
  file: string,
): Promise<{ present: IdentityFile; next: IdentityFile; nextFile: string } | undefined> {
  const present = readIdentity(file);
  const nextFile = `${file}.next`;
  if (existsSync(nextFile) && readIdentity(nextFile).publicKey === present.publicKey) {
    rmSync(nextFile);
    return undefined;
  }
  if (!existsSync(nextFile)) writePrivateJson(nextFile, await createIdentity(present.role, present.id));
  return { present, next: readIdentity(nextFile), nextFile };
}

const opensWith = (identity: IdentityFile, others: readonly IdentityFile[]): IdentityFile => {
  const keys = others.flatMap((other) => [other.sealPrivateKey, ...(other.alsoOpens ?? [])]);
  const earlier = [...new Set(keys)].filter((key) => key !== identity.sealPrivateKey).slice(0, MAX_EARLIER);
  return { ...identity, alsoOpens: earlier };
};

/** The new keys take the place of the present ones; a running service signs with them within a second. */
function adopt(file: string, { present, next, nextFile }: NonNullable<Awaited<ReturnType<typeof nextKeys>>>): void {
  writePrivateJson(file, opensWith(next, [present]));
  rmSync(nextFile);
}

/**
 * Rotates keys of the control plane: the roster names both, hosts keep to it, and only then the service signs with the new
 * ones. Repeating it after an interruption, or after a draft was signed and published, goes on where it stopped.
 */
export async function rotateControlKey(
  { role, id, file, overlapMinutes }: { role: RosterRole; id: string; file: string; overlapMinutes: number },
  options: SignOptions,
  command: Command,
): Promise<{ key: string; adopted: boolean; behind: string[] }> {
  const keys = await nextKeys(file);
  if (!keys) return { key: readIdentity(file).publicKey, adopted: true, behind: [] };
  const { present, next } = keys;
  const gateway = localGateway(command, 'local-admin');
  const roster = await rosterInForce(gateway);
  const named = roster.members.find(({ signKey }) => signKey === next.publicKey);
  if (named?.revoked)
    throw new RefusedError(
      `the new key is revoked already; remove \`${keys.nextFile}\` and repeat`,
      'countersign.cli.usage',
      EXIT.usage,
    );
  if (named) {
    await keepRosterInForce(gateway, command);
    adopt(file, keys);
    return { key: next.publicKey, adopted: true, behind: [] };
  }
  const added: RosterMember = { role, id, signKey: next.publicKey, sealKey: next.sealPublicKey };
  const members = roster.members.map((member) =>
    member.signKey === present.publicKey && !member.revoked ? { ...member, overlapMinutes } : member,
  );
  const changed = await changeRoster([added, ...members], options, command);
  if (!changed) return { key: next.publicKey, adopted: false, behind: [] };
  adopt(file, keys);
  return { key: next.publicKey, adopted: true, behind: changed.behind };
}

/** Rotates the keys of a host or agent where they are: it opens with both before the control plane knows of the new ones. */
export async function rotateMemberKeys(
  { role, id, file, overlapMinutes }: { role: MemberRole; id: string; file: string; overlapMinutes: number },
  gatewayAddress: string | undefined,
  command: Command,
): Promise<{ key: string; adopted: boolean; behind: string[] }> {
  const keys = await nextKeys(file);
  if (!keys) return { key: readIdentity(file).publicKey, adopted: true, behind: [] };
  const { present, next } = keys;
  writePrivateJson(file, opensWith(present, [present, next]));
  const facts = {
    role,
    id,
    oldKey: present.publicKey,
    signKey: next.publicKey,
    sealKey: next.sealPublicKey,
  };
  const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');
  const body = {
    ...facts,
    consent: base64(signRotation(await openIdentity(present), facts)),
    proof: base64(signRotation(await openIdentity(next), facts)),
    overlapMinutes,
  };
  const address = gatewayAddress ?? readEndpoints(openDataFolder(dataRoot(command))).http;
  accepted(await gatewayClient(address, '').request('POST', '/v1/member-keys', z.unknown(), body));
  adopt(file, keys);
  return { key: next.publicKey, adopted: true, behind: [] };
}
