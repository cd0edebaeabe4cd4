import { createHash, createPublicKey, verify } from 'node:crypto';
import { leafHash, verifyInclusion, verifySignedNote } from '@countersign/merkle';
import {
  type IdentityFile,
  openIdentity,
  openRoster,
  parseInvitation,
  proveEnrolment,
  rawPublicKey,
  rootFingerprint,
} from '@countersign/protocol';
import { z } from 'zod';
import { gatewayClient } from './gateway-client.ts';
import { accepted } from './local-installation.ts';
import { EXIT, RefusedError } from './output.ts';

const joinedSchema = z.object({
  role: z.string(),
  id: z.string(),
  rootKey: z.string(),
  roster: z.base64(),
  natsUrl: z.string(),
  checkpoint: z.string(),
  entry: z.object({ leaf: z.base64(), index: z.number(), proof: z.array(z.base64()) }),
});

/** What a member keeps of its enrolment, after everything was verified. */
export type Joined = {
  readonly rootKey: string;
  readonly roster: Uint8Array;
  readonly natsUrl: string;
  /** Signed note from which on the member holds the log to consistency. */
  readonly checkpoint: string;
};

const sha256 = (data: Uint8Array): Uint8Array => new Uint8Array(createHash('sha256').update(data).digest());
const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'base64'));

const verifyEd25519 = (publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean => {
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(publicKey).toString('base64url') };
  return verify(null, message, createPublicKey({ key: jwk, format: 'jwk' }), signature);
};

const untrusted = (message: string): RefusedError =>
  new RefusedError(`${message}; nothing was kept`, 'countersign.cli.enrolment_unproven');

const entrySchema = z.object({
  type: z.literal('member.joined'),
  detail: z.object({ role: z.string(), id: z.string(), sign_key: z.string() }),
});

/** SECURITY: only the fingerprint in the invitation is trusted; everything else must follow from it. */
function verifyAnswer(answer: z.infer<typeof joinedSchema>, identity: IdentityFile, fingerprint: string): void {
  if (rootFingerprint(answer.rootKey) !== fingerprint) throw untrusted('the root key is not the one of the invitation');
  const roster = openRoster(bytes(answer.roster), answer.rootKey);
  if (!roster.ok) throw untrusted(`the roster is refused: ${roster.error.message}`);
  const log = roster.value.members.find(({ role }) => role === 'log');
  if (!log) throw untrusted('the roster names no log');
  const name = answer.checkpoint.split('\n', 1)[0] ?? '';
  const publicKey = rawPublicKey(log.signKey);
  const note = verifySignedNote(answer.checkpoint, { name, publicKey, verifyEd25519, sha256 });
  if (!note.ok) throw untrusted(`the checkpoint is refused: ${note.error.message}`);
  const leaf = bytes(answer.entry.leaf);
  const claim = { leaf: leafHash(sha256, leaf), index: answer.entry.index, proof: answer.entry.proof.map(bytes) };
  if (!verifyInclusion(sha256, { ...claim, size: note.value.size, root: note.value.root }))
    throw untrusted('the checkpoint does not cover the enrolment');
  const entry = entrySchema.safeParse(JSON.parse(new TextDecoder().decode(leaf)));
  const { role, id, publicKey: sign_key } = identity;
  const own = entry.success && entry.data.detail;
  if (!own || own.role !== role || own.id !== id || own.sign_key !== sign_key)
    throw untrusted('the recorded enrolment is of other keys');
}

/**
 * Enrols the keys of `identity` with an invitation at the gateway. Throws a RefusedError when the gateway refuses, or when its
 * answer does not follow from the root key that the invitation names.
 */
export async function enrolWith(gateway: string, invitation: string, identity: IdentityFile): Promise<Joined> {
  const parsed = parseInvitation(invitation);
  if (!parsed) throw new RefusedError('that is no invitation', 'countersign.cli.usage', EXIT.usage);
  const { role, id, publicKey: signKey, sealPublicKey: sealKey } = identity;
  const proof = proveEnrolment(await openIdentity(identity), { invitation: parsed.id, role, id, signKey, sealKey });
  const body = { signKey, sealKey, proof: Buffer.from(proof).toString('base64') };
  const answer = accepted(
    await gatewayClient(gateway, invitation).request('POST', '/v1/enrolments', joinedSchema, body),
  );
  verifyAnswer(answer, identity, parsed.rootFingerprint);
  const { rootKey, roster, natsUrl, checkpoint } = answer;
  return { rootKey, roster: bytes(roster), natsUrl, checkpoint };
}
