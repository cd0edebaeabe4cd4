import { err, ok, type Result } from '@countersign/kernel';
import { z } from 'zod';
import { type EnvelopeError, openEnvelope, signEnvelope } from './envelope.ts';
import { EnvelopeKind } from './gen/countersign/v1/envelope.ts';
import type { Identity } from './identity.ts';
import { overlapSchema, withEnds } from './overlap.ts';

/** Public key of a passkey as JSON Web Key: P-256, Ed25519 or RSA. */
export const passkeyJwkSchema = z.discriminatedUnion('kty', [
  z.strictObject({ kty: z.literal('EC'), crv: z.literal('P-256'), x: z.base64url(), y: z.base64url() }),
  z.strictObject({ kty: z.literal('OKP'), crv: z.literal('Ed25519'), x: z.base64url() }),
  z.strictObject({ kty: z.literal('RSA'), n: z.base64url(), e: z.base64url() }),
]);

const approverSchema = z.strictObject({
  person: z.string().min(1).max(128),
  credentialId: z.base64url().min(1).max(1_400),
  key: passkeyJwkSchema,
  /** End of the overlap after a rotation, Unix time in milliseconds; the passkey approves nothing from then on. */
  untilMs: z.int().min(1).optional(),
});
const MAX_APPROVERS = 10_000;

const listSchema = z.strictObject({
  version: z.int().min(1),
  /** Domain that the passkeys belong to, and the addresses of the desk. */
  rpId: z.string().min(1).max(253),
  origins: z.array(z.url()).min(1).max(16),
  approvers: z.array(approverSchema).max(MAX_APPROVERS),
});

/** Which passkey belongs to which person, as the organisation root vouches for it. */
export type ApproverList = z.infer<typeof listSchema>;
export const approverListSchema = listSchema;
const draftLineSchema = approverSchema.extend({
  /** The overlap of a passkey that is replaced; its end is fixed when the root signs. */
  overlapMinutes: overlapSchema.optional(),
});
export const approverDraftSchema = listSchema.extend({ approvers: z.array(draftLineSchema).max(MAX_APPROVERS) });
/** A list before the root signs it. */
export type ApproverDraft = z.infer<typeof approverDraftSchema>;

const SUBJECT = 'approvers';

/** Signs an approver list with the organisation root key, away from the control plane; overlaps of the draft begin at `nowMs`. */
export function signApproverList(root: Identity, draft: ApproverDraft, nowMs: number = Date.now()): Uint8Array {
  const list = listSchema.parse({ ...draft, approvers: withEnds(draft.approvers, nowMs) });
  const body = new TextEncoder().encode(JSON.stringify(list));
  return signEnvelope(root, { kind: EnvelopeKind.APPROVER_LIST, subject: SUBJECT, body, nowMs });
}

/** Opens a list signed by the pinned root key. */
export function openApproverList(
  bytes: Uint8Array,
  rootPublicKey: string,
): Result<ApproverList, EnvelopeError | { code: 'malformed_list'; message: string }> {
  const opened = openEnvelope(bytes, {
    kind: EnvelopeKind.APPROVER_LIST,
    subject: SUBJECT,
    issuer: rootPublicKey,
    nowMs: Date.now(),
  });
  if (!opened.ok) return opened;
  try {
    return ok(listSchema.parse(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(opened.value.body))));
  } catch {
    return err({ code: 'malformed_list', message: 'approver list does not have the expected form' });
  }
}
