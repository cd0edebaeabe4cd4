import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import { lengthPrefixed } from './bytes.ts';

/** The facts of a call that its digest covers beside the exact arguments. */
export type CallEnvelope = {
  readonly agent: string;
  readonly callId: string;
  readonly sessionId: string;
  readonly tool: string;
  readonly executor: string;
  readonly deadlineMs: number;
};

/** RFC 8785 bytes of a call's envelope. */
export function canonicalEnvelope(envelope: CallEnvelope): Uint8Array {
  const text = canonicalize({
    agent: envelope.agent,
    call_id: envelope.callId,
    deadline_ms: envelope.deadlineMs,
    executor: envelope.executor,
    session_id: envelope.sessionId,
    tool: envelope.tool,
  });
  if (text === undefined) throw new TypeError('call envelope is not JSON');
  return new TextEncoder().encode(text);
}

/**
 * SHA-256(tag ‖ salt ‖ exact argument bytes ‖ canonical envelope), each part length-prefixed. Throws unless the salt has 32 bytes.
 */
export function callDigest(salt: Uint8Array, args: Uint8Array, envelope: Uint8Array): Uint8Array {
  if (salt.length !== 32) throw new TypeError('salt of a call must have 32 bytes');
  return new Uint8Array(
    createHash('sha256')
      .update(lengthPrefixed('countersign/call/v1', [salt, args, envelope]))
      .digest(),
  );
}
