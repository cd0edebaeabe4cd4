import { randomUUID } from 'node:crypto';
import { err, ok, type Result } from '@countersign/kernel';
import { lengthPrefixed } from './bytes.ts';
import type { EnvelopeKind } from './gen/countersign/v1/envelope.ts';
import { SignedEnvelope } from './gen/countersign/v1/envelope.ts';
import { type Identity, verifySignature } from './identity.ts';

const TAG = 'countersign/envelope/v1';
const VERSION = 1;
/** Largest accepted envelope: the default `max_payload` of nats-server. */
export const MAX_ENVELOPE_BYTES = 1_048_576;
/** Clocks may differ by this much before a host is not ready. */
const MAX_AHEAD_MS = 5_000;

export type EnvelopeErrorCode =
  | 'too_large'
  | 'malformed'
  | 'wrong_version'
  | 'wrong_kind'
  | 'wrong_subject'
  | 'wrong_issuer'
  | 'bad_signature'
  | 'too_old'
  | 'from_the_future';

export type EnvelopeError = { readonly code: EnvelopeErrorCode; readonly message: string };

/** A verified envelope. */
export type OpenedEnvelope = {
  readonly id: string;
  readonly issuer: string;
  readonly issuedAtMs: number;
  readonly sequence: bigint;
  readonly body: Uint8Array;
};

const signedBytes = (envelope: SignedEnvelope): Uint8Array =>
  lengthPrefixed(TAG, [
    envelope.version,
    envelope.kind,
    envelope.subject,
    envelope.id,
    envelope.issuer,
    envelope.issuedAtMs,
    envelope.sequence,
    envelope.body,
  ]);

/** Signs `body` for `subject`. `sequence` must rise for kinds of short validity; 0 where it is not used. */
export function signEnvelope(
  identity: Identity,
  message: { kind: EnvelopeKind; subject: string; body: Uint8Array; nowMs: number; sequence?: bigint },
): Uint8Array {
  const envelope: SignedEnvelope = {
    version: VERSION,
    kind: message.kind,
    subject: message.subject,
    id: `env_${randomUUID()}`,
    issuer: identity.publicKey,
    issuedAtMs: BigInt(message.nowMs),
    sequence: message.sequence ?? 0n,
    body: message.body,
    signature: new Uint8Array(),
  };
  return SignedEnvelope.encode({ ...envelope, signature: identity.sign(signedBytes(envelope)) }).finish();
}

/** What a receiver demands of an envelope. */
export type EnvelopeExpectation = {
  readonly kind: EnvelopeKind;
  /** Subject that the receiver listens on, from the broker's delivery. */
  readonly subject: string;
  /** Public key of the sender's enrolment record, or a test over known keys. */
  readonly issuer: string | ((issuer: string) => boolean);
  readonly nowMs: number;
  /** Absent: any age (kinds that carry their own deadline and unique key). */
  readonly maxAgeMs?: number;
};

function decodeEnvelope(bytes: Uint8Array): SignedEnvelope | undefined {
  try {
    return SignedEnvelope.decode(bytes);
  } catch {
    return undefined;
  }
}

/**
 * Opens an envelope. SECURITY: subject, kind, sender and age are all checked; a receiver must compare the subject that
 * the broker delivered on, because a consumer's delivery subject and a reply subject are the publisher's choice.
 */
export function openEnvelope(bytes: Uint8Array, expected: EnvelopeExpectation): Result<OpenedEnvelope, EnvelopeError> {
  const refuse = (code: EnvelopeErrorCode, message: string) => err({ code, message });
  if (bytes.length > MAX_ENVELOPE_BYTES) {
    return refuse('too_large', `message has ${bytes.length} bytes; the limit is ${MAX_ENVELOPE_BYTES}`);
  }
  const envelope = decodeEnvelope(bytes);
  if (!envelope) return refuse('malformed', 'message is not a signed envelope');
  if (envelope.version !== VERSION) return refuse('wrong_version', `envelope version ${envelope.version} is not known`);
  if (envelope.kind !== expected.kind) return refuse('wrong_kind', `expected \`${expected.kind}\``);
  if (envelope.subject !== expected.subject) return refuse('wrong_subject', 'signed for another subject');
  const issuerKnown =
    typeof expected.issuer === 'string' ? envelope.issuer === expected.issuer : expected.issuer(envelope.issuer);
  if (!issuerKnown) return refuse('wrong_issuer', 'sender is not the enrolled owner of this subject');
  if (!verifySignature(envelope.issuer, signedBytes(envelope), envelope.signature)) {
    return refuse('bad_signature', 'signature does not verify');
  }
  const issuedAtMs = Number(envelope.issuedAtMs);
  if (issuedAtMs > expected.nowMs + MAX_AHEAD_MS)
    return refuse('from_the_future', "sender's clock is ahead; set the clock");
  if (expected.maxAgeMs !== undefined && expected.nowMs - issuedAtMs > expected.maxAgeMs) {
    return refuse('too_old', `issued more than ${expected.maxAgeMs} ms ago`);
  }
  return ok({ id: envelope.id, issuer: envelope.issuer, issuedAtMs, sequence: envelope.sequence, body: envelope.body });
}
