import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { leafHash, verifyInclusion } from '@countersign/merkle';
import {
  type ApprovalStatement,
  type ApproverList,
  assertionsDigest,
  type IsIncluded,
  termsDigest,
  verifyAssertion,
  type WorkOrder,
} from '@countersign/protocol';
import { MAX_CLOCK_OFFSET_MS } from './beat-watch.ts';

export type AssertionCheck = {
  readonly order: WorkOrder;
  /** Digest that the runner computed over what it would run. */
  readonly executedDigest: Uint8Array;
  /** The newest list of approvers that this host knows. */
  readonly list: ApproverList | undefined;
  /** Different people whose passkeys the host's pins ask for. */
  readonly people: number;
  readonly nowMs: number;
};

const sha256 = (data: Uint8Array): Uint8Array => new Uint8Array(createHash('sha256').update(data).digest());

const isIncluded: IsIncluded = (leaf, { index, size, path, root }) =>
  verifyInclusion(sha256, { leaf: leafHash(sha256, leaf), index, size, proof: path, root });

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

/** Why a statement is not about this order at this time; undefined when it is. */
function mismatch(statement: ApprovalStatement, { order, executedDigest, nowMs }: AssertionCheck): string | undefined {
  if (statement.call_digest !== hex(executedDigest)) return 'another call was approved';
  if (statement.terms_digest !== hex(termsDigest(order))) return 'other terms were approved';
  if (statement.profile !== order.profile) return 'another profile was approved';
  if (statement.scope !== order.project) return 'another project was approved';
  if (!statement.hosts.includes(order.host)) return 'another host was approved';
  // A clock that is as far behind as a ready host's may be has not reached the approval yet.
  if (nowMs + MAX_CLOCK_OFFSET_MS < statement.not_before_ms || nowMs >= statement.expiry_ms)
    return 'the approval does not hold at this time';
  return undefined;
}

/**
 * Why the passkeys of an order do not suffice on this host; undefined when they do. INVARIANT: everything is computed from
 * the order that would run, the host's own pins and the list that the root signed; nothing that the control plane says counts.
 */
export function assertionRefusal(check: AssertionCheck): string | undefined {
  const { order, list, people } = check;
  const bound = order.receipt?.assertionsDigest ?? new Uint8Array();
  if (Buffer.compare(assertionsDigest(order.assertions), bound) !== 0)
    return 'the record holds other approvals than the order';
  if (people === 0) return undefined;
  if (!list) return 'this host knows no signed list of approvers';
  const approvers = new Set<string>();
  for (const assertion of order.assertions) {
    const verified = verifyAssertion(assertion, list, { isIncluded, nowMs: check.nowMs });
    if (!verified.ok) return `a passkey approval is refused: ${verified.error.message}`;
    const wrong = mismatch(verified.value, check);
    if (wrong !== undefined) return `a passkey approval is refused: ${wrong}`;
    approvers.add(verified.value.approver);
  }
  return approvers.size >= people
    ? undefined
    : `${people} different people have to approve this with passkeys here; ${approvers.size} did`;
}
