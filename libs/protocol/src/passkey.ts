import { Buffer } from 'node:buffer';
import { createHash, createPublicKey, type JsonWebKeyInput, verify } from 'node:crypto';
import { err, ok, type Result } from '@countersign/kernel';
import canonicalize from 'canonicalize';
import { z } from 'zod';
import type { ApproverList } from './approver-list.ts';
import { lengthPrefixed } from './bytes.ts';
import { type ApprovalTree, PasskeyAssertion } from './gen/countersign/v1/work.ts';
import { parseIJson } from './i-json.ts';

const digest = z.string().regex(/^[0-9a-f]{64}$/);

/** What a person approves with a passkey. Times are milliseconds since the Unix epoch. */
export const statementSchema = z.strictObject({
  answer: z.literal('approve'),
  approver: z.string().min(1).max(128),
  call_digest: digest,
  expiry_ms: z.int().min(0),
  hosts: z.array(z.string()).min(1).max(1_000),
  not_before_ms: z.int().min(0),
  policy_digest: z.string().max(128),
  profile: z.string(),
  queue: z.string(),
  /** Project folder. */
  scope: z.string(),
  /** Digest of project, profile, obligations and preconditions after narrowing. */
  terms_digest: digest,
  view_digest: digest,
});
export type ApprovalStatement = z.infer<typeof statementSchema>;

/** RFC 8785 bytes of a statement. */
export function statementBytes(statement: ApprovalStatement): Uint8Array {
  const text = canonicalize(statement);
  if (text === undefined) throw new TypeError('an approval statement is not JSON');
  return new TextEncoder().encode(text);
}

const sha256 = (data: Uint8Array | string): Buffer => createHash('sha256').update(data).digest();

/** The challenge that the passkey signs: SHA-256(tag ‖ nonce ‖ statement), each part after its length. */
export const approvalChallenge = (nonce: Uint8Array, statement: Uint8Array): Uint8Array =>
  new Uint8Array(sha256(lengthPrefixed('countersign/approval/v1', [nonce, statement])));

/** The challenge of one signature over several calls: SHA-256(tag ‖ root of the RFC 6962 tree over their challenges). */
export const approvalTreeChallenge = (root: Uint8Array): Uint8Array =>
  new Uint8Array(sha256(lengthPrefixed('countersign/approvals/v1', [root])));

/** True when `leaf` is in the tree, RFC 9162 section 2.1.3.2; passed in, because this package builds no trees. */
export type IsIncluded = (leaf: Uint8Array, tree: ApprovalTree) => boolean;

/** Most calls that one signature approves. */
export const MAX_TREE_CALLS = 50;

/** What the receipt binds of the assertions of an order; empty when there are none. */
export const assertionsDigest = (assertions: readonly PasskeyAssertion[]): Uint8Array =>
  assertions.length === 0
    ? new Uint8Array()
    : new Uint8Array(
        sha256(
          lengthPrefixed(
            'countersign/assertions/v1',
            assertions.map((item) => PasskeyAssertion.encode(PasskeyAssertion.fromPartial(item)).finish()),
          ),
        ),
      );

const clientDataSchema = z.looseObject({
  type: z.literal('webauthn.get'),
  challenge: z.string(),
  origin: z.string(),
  crossOrigin: z.boolean().optional(),
});

const USER_PRESENT = 0x01;
const USER_VERIFIED = 0x04;
const MIN_AUTHENTICATOR_DATA = 37;
const NONCE_BYTES = 32;

type Approver = ApproverList['approvers'][number];

/** Node's name of the hash of each kind of key; Ed25519 brings its own. */
const HASH = { EC: 'sha256', RSA: 'sha256', OKP: null } as const;

function isSigned(approver: Approver, data: Uint8Array, signature: Uint8Array): boolean {
  try {
    const key = createPublicKey({ key: approver.key, format: 'jwk' } as JsonWebKeyInput);
    return verify(HASH[approver.key.kty], data, key, signature);
  } catch {
    return false;
  }
}

/** The challenge that the passkey must have signed; a text says why there is none. */
function challengeOf({ nonce, statement, tree }: PasskeyAssertion, isIncluded: IsIncluded): Uint8Array | string {
  const challenge = approvalChallenge(nonce, statement);
  if (!tree) return challenge;
  if (tree.size < 2 || tree.size > MAX_TREE_CALLS || tree.root.length !== 32)
    return 'the tree of calls is not one that a person was shown';
  return isIncluded(challenge, tree)
    ? approvalTreeChallenge(tree.root)
    : 'the call is not among those that the passkey approved';
}

function checkClientData(assertion: PasskeyAssertion, list: ApproverList, isIncluded: IsIncluded): string | undefined {
  const json = parseIJson(assertion.clientDataJson);
  const parsed = clientDataSchema.safeParse(json.ok ? json.value : undefined);
  if (!parsed.success) return 'client data is malformed';
  const challenge = challengeOf(assertion, isIncluded);
  if (typeof challenge === 'string') return challenge;
  if (parsed.data.challenge !== Buffer.from(challenge).toString('base64url'))
    return 'the passkey signed something else';
  if (!list.origins.includes(parsed.data.origin)) return 'the passkey was asked by another page';
  return parsed.data.crossOrigin === true ? 'the passkey was asked from inside another page' : undefined;
}

function checkAuthenticatorData(data: Uint8Array, list: ApproverList): string | undefined {
  if (data.length < MIN_AUTHENTICATOR_DATA) return 'authenticator data is too short';
  if (!sha256(list.rpId).equals(Buffer.from(data.subarray(0, 32)))) return 'the passkey belongs to another domain';
  const flags = data[32] ?? 0;
  if ((flags & USER_PRESENT) === 0 || (flags & USER_VERIFIED) === 0) return 'the passkey did not verify its user';
  return undefined;
}

function readStatement(bytes: Uint8Array): ApprovalStatement | undefined {
  const json = parseIJson(bytes);
  const parsed = statementSchema.safeParse(json.ok ? json.value : undefined);
  return parsed.success && Buffer.compare(statementBytes(parsed.data), bytes) === 0 ? parsed.data : undefined;
}

/**
 * Verifies one assertion against the signed list: form, challenge, origin, domain, user verification, signature, and that the
 * key belongs to the person whom the statement names and still counts at `nowMs`. What the statement says of the call is for
 * the caller to compare.
 */
export function verifyAssertion(
  assertion: PasskeyAssertion,
  list: ApproverList,
  { isIncluded, nowMs }: { isIncluded: IsIncluded; nowMs: number },
): Result<ApprovalStatement, { readonly message: string }> {
  const refuse = (message: string) => err({ message });
  if (assertion.nonce.length !== NONCE_BYTES) return refuse('the nonce does not have 32 bytes');
  const statement = readStatement(assertion.statement);
  if (!statement) return refuse('the statement is not in canonical form');
  const credentialId = Buffer.from(assertion.credentialId).toString('base64url');
  const approver = list.approvers.find((known) => known.credentialId === credentialId);
  if (!approver) return refuse('the passkey is not on the signed approver list');
  if (approver.untilMs !== undefined && nowMs >= approver.untilMs)
    return refuse('the passkey was replaced by another one');
  if (approver.person !== statement.approver) return refuse('the passkey belongs to another person');
  const wrong =
    checkClientData(assertion, list, isIncluded) ?? checkAuthenticatorData(assertion.authenticatorData, list);
  if (wrong !== undefined) return refuse(wrong);
  const signed = Buffer.concat([assertion.authenticatorData, sha256(assertion.clientDataJson)]);
  return isSigned(approver, signed, assertion.signature) ? ok(statement) : refuse('the signature does not verify');
}
