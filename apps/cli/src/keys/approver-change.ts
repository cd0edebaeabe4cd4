import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type ApproverDraft,
  type ApproverList,
  approverDraftSchema,
  approverListSchema,
  signApproverList,
} from '@countersign/protocol';
import type { Command } from 'commander';
import { z } from 'zod';
import { writePrivateJson } from '../embedded/private-file.ts';
import type { GatewayClient } from '../gateway-client.ts';
import { accepted, localGateway } from '../local-installation.ts';
import { plainText, usage } from '../output.ts';
import { isRootHere, openRoot, rootFileOf, type SignOptions } from './roster-change.ts';

const listAnswerSchema = z.object({ draft: approverListSchema, published: approverListSchema.optional() });
const passkeysSchema = z.object({
  passkeys: z.array(
    z.looseObject({
      person: z.string(),
      credential_id: z.string(),
      label: z.string(),
      added_ms: z.number(),
      listed: z.boolean(),
    }),
  ),
});
type Passkey = z.infer<typeof passkeysSchema>['passkeys'][number];

const POLL_MS = 1_000;
const MINUTE_MS = 60_000;

export type ApproverRotation = {
  readonly person: string;
  readonly overlapMinutes: number;
  /** Credential id of the passkey that takes over, where the person added several. */
  readonly credential: string | undefined;
  /** How long to wait for the person to add it, in minutes. */
  readonly waitMinutes: number;
};

/** The list in force and the next one, with every passkey enrolled now. */
export const approverLists = async (gateway: GatewayClient) =>
  accepted(await gateway.request('GET', '/v1/approver-list', listAnswerSchema));

/** A draft, as `approvers sign` reads it. */
export function readApproverDraft(file: string): ApproverDraft {
  const parsed = approverDraftSchema.safeParse(JSON.parse(readFileSync(file, 'utf8')));
  if (parsed.success) return parsed.data;
  throw usage(`\`${file}\` is no list of approvers`);
}

/** Puts a signed list in force; its version never goes back. */
export async function publishApprovers(gateway: GatewayClient, signed: Uint8Array): Promise<number> {
  const body = { signed: Buffer.from(signed).toString('base64') };
  return accepted(await gateway.request('PUT', '/v1/approver-list', z.object({ version: z.number() }), body)).version;
}

/** Signs and publishes a list, or writes its draft; undefined when only a draft was written. */
async function changeApprovers(
  draft: ApproverDraft,
  options: SignOptions,
  command: Command,
): Promise<number | undefined> {
  if (options.draft !== undefined) {
    writePrivateJson(options.draft, draft);
    return undefined;
  }
  const root = await openRoot(rootFileOf(options.root, command));
  return publishApprovers(localGateway(command, 'local-admin'), signApproverList(root, draft));
}

/** Passkeys of a person that the list in force does not name, once there is one or the wait is over. */
async function added(gateway: GatewayClient, person: string, waitMinutes: number): Promise<Passkey[]> {
  for (const untilMs = Date.now() + waitMinutes * MINUTE_MS; ; await delay(POLL_MS)) {
    const { passkeys } = accepted(await gateway.request('GET', '/v1/passkeys', passkeysSchema));
    const found = passkeys.filter((passkey) => passkey.person === person && !passkey.listed);
    if (found.length > 0 || Date.now() >= untilMs) return found;
  }
}

/** SECURITY: which passkey takes over is never guessed; somebody else may have added one in the person's session. */
function chosen(found: readonly Passkey[], { person, credential }: ApproverRotation): Passkey {
  if (found.length === 0)
    throw usage(
      `\`${person}\` has added no passkey that the list does not name; it is added at the desk, on the page You (\`--wait\` waits for it)`,
    );
  const named = credential === undefined ? found : found.filter(({ credential_id }) => credential_id === credential);
  const [only, ...others] = named;
  if (only && others.length === 0) return only;
  const ids = found.map(({ credential_id, label }) => `${credential_id} (${plainText(label)})`).join(', ');
  throw usage(`name the passkey that takes over with \`--credential\`: ${ids}`);
}

type Lists = { readonly draft: ApproverList; readonly published?: ApproverList | undefined };

/** Lines of the list in force whose passkeys still count; what others have added since waits for a list of its own. */
function stillCounting({ draft, published }: Lists): ApproverList['approvers'] {
  const enrolled = new Map(draft.approvers.map((line) => [line.credentialId, line]));
  return (published?.approvers ?? []).flatMap(({ credentialId }) => enrolled.get(credentialId) ?? []);
}

/** The list in force with one more passkey of a person, and an overlap for the others of that person. */
function withNext(lists: Lists, next: Passkey, overlapMinutes: number): ApproverDraft {
  const { draft } = lists;
  const kept = stillCounting(lists);
  const own = draft.approvers.find(({ credentialId }) => credentialId === next.credential_id);
  if (!own || !kept.some(({ person }) => person === next.person))
    throw usage(
      `the list in force names no passkey of \`${next.person}\`; list the first one with \`countersign approvers draft\``,
    );
  const lines = kept.map((line) =>
    line.person === next.person && line.untilMs === undefined ? { ...line, overlapMinutes } : line,
  );
  return { ...draft, approvers: [...lines, own] };
}

/**
 * Lets a newly added passkey of a person take over from those that the list names, which count until the end of the overlap:
 * one signed list, in force at the gateways at once and at the hosts within seconds.
 */
export async function rotateApprover(
  rotation: ApproverRotation,
  options: SignOptions,
  command: Command,
): Promise<{ passkey: Passkey; version: number | undefined }> {
  const gateway = localGateway(command, 'local-admin');
  const passkey = chosen(await added(gateway, rotation.person, rotation.waitMinutes), rotation);
  const draft = withNext(await approverLists(gateway), passkey, rotation.overlapMinutes);
  return { passkey, version: await changeApprovers(draft, options, command) };
}

/** Ends a passkey at the gateways, and takes it off the list in force where the root key is here; `listed`: one named it. */
export async function revokeApprover(
  credential: string,
  options: SignOptions,
  command: Command,
): Promise<{ version: number | undefined; listed: boolean }> {
  const gateway = localGateway(command, 'local-admin');
  accepted(await gateway.request('DELETE', `/v1/passkeys/${encodeURIComponent(credential)}`, z.unknown()));
  const lists = await approverLists(gateway);
  if (!lists.published?.approvers.some(({ credentialId }) => credentialId === credential))
    return { version: undefined, listed: false };
  if (options.draft === undefined && !isRootHere(options.root, command)) return { version: undefined, listed: true };
  const next = { ...lists.draft, approvers: stillCounting(lists) };
  return { version: await changeApprovers(next, options, command), listed: true };
}
