import { concatBytes, leafHash, rootOfLeaves } from '@countersign/merkle';
import { sha256 } from '@noble/hashes/sha2.js';
import * as z from 'zod/mini';
import type { Challenge, ChallengePart } from '../api/passkeys.ts';

/** What this page shows of a call that is about to be approved. */
export type ShownCall = { readonly callId: string; readonly viewDigest: string };

const statementSchema = z.object({ answer: z.literal('approve'), approver: z.string(), view_digest: z.string() });

const fromBase64url = (text: string): Uint8Array =>
  Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (char) => char.charCodeAt(0));

function toBase64url(bytes: Uint8Array): string {
  const text = btoa(String.fromCharCode(...bytes));
  return text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

/** SHA-256(tag ‖ parts), each part after its length in four bytes; the same as the gateway and the host compute. */
function taggedHash(tag: string, parts: readonly Uint8Array[]): Uint8Array {
  const length = (part: Uint8Array) => new Uint8Array(new Uint32Array([part.length]).buffer).toReversed();
  return sha256(concatBytes(new TextEncoder().encode(tag), ...parts.flatMap((part) => [length(part), part])));
}

function partChallenge({ nonce, statement }: ChallengePart): Uint8Array {
  return taggedHash('countersign/approval/v1', [fromBase64url(nonce), fromBase64url(statement)]);
}

/** The challenge that follows from the parts alone. */
function challengeOf(parts: readonly ChallengePart[]): Uint8Array {
  const [first, ...others] = parts.map(partChallenge);
  if (first && others.length === 0) return first;
  const leaves = parts.map((part) => leafHash(sha256, partChallenge(part)));
  return taggedHash('countersign/approvals/v1', [rootOfLeaves(sha256, leaves)]);
}

function saysOf(part: ChallengePart): z.infer<typeof statementSchema> | undefined {
  try {
    return statementSchema.parse(JSON.parse(new TextDecoder().decode(fromBase64url(part.statement))));
  } catch {
    return undefined;
  }
}

/**
 * True when a challenge approves exactly the calls that this page shows, as it shows them, for this person, and nothing
 * else. SECURITY: computed here, so that a passkey never signs what its owner did not see.
 */
export function approvesWhatIsShown(asked: Challenge, shown: readonly ShownCall[], person: string): boolean {
  const digests = new Map(shown.map(({ callId, viewDigest }) => [callId, viewDigest]));
  const isShown = (part: ChallengePart) => {
    const says = saysOf(part);
    return says?.approver === person && says.view_digest === digests.get(part.callId);
  };
  const ids = new Set(asked.calls.map(({ callId }) => callId));
  return (
    ids.size === digests.size &&
    asked.calls.length === ids.size &&
    asked.calls.every(isShown) &&
    toBase64url(challengeOf(asked.calls)) === asked.challenge
  );
}
