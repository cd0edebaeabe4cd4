import { Buffer } from 'node:buffer';
import { err, isSubjectToken, ok, type Result } from '@countersign/kernel';
import {
  type CallPayload,
  callDigest,
  canonicalEnvelope,
  ERROR_CODES,
  type ErrorCode,
  normaliseTool,
  type OpenedEnvelope,
  parseIJson,
  termsDigest,
  verifyReceipt,
  type WorkOrder,
} from '@countersign/protocol';
import { z } from 'zod';
import type { ToolCall } from './host-tools.ts';
import { parseToolCall } from './parse-tool-call.ts';

/** Oldest beat on which anything may start. */
export const MAX_BEAT_AGE_MS = 10_000;

export type OrderRefusalCode =
  | 'malformed_order'
  | 'wrong_host'
  | 'replayed'
  | 'journal_younger'
  | 'receipt_missing'
  | 'receipt_other_order'
  | 'receipt_other_call'
  | 'receipt_other_host'
  | 'receipt_other_digest'
  | 'receipt_other_terms'
  | 'receipt_undecided'
  | 'receipt_signature'
  | 'expired'
  | 'payload_unreadable'
  | 'call_envelope_malformed'
  | 'call_envelope_differs'
  | 'digest_mismatch'
  | 'arguments_invalid'
  | 'revoked'
  | 'frozen'
  | 'roster_behind'
  | 'beat_missing'
  | 'beat_stale'
  | 'log_unproven';

/**
 * What to do with an order that may not run: `discard` says nothing, `repeat` answers from the journal, `wait` tries
 * again until the order expires; the others are the state to report.
 */
export type RefusalAction = 'discard' | 'repeat' | 'wait' | 'refused' | 'expired' | 'interrupted' | 'withdrawn';

export type OrderRefusal = {
  readonly code: OrderRefusalCode;
  readonly action: RefusalAction;
  readonly errorCode: ErrorCode;
  readonly message: string;
};

/** The newest beat, as verified. */
export type BeatFacts = {
  readonly atMs: number;
  readonly frozenScopes: readonly string[];
  readonly revokedOrders: readonly string[];
  /** Frozen scopes in which running work is stopped as well. */
  readonly stoppedScopes: readonly string[];
  /** Versions of roster and approver list in force. */
  readonly rosterVersion: number;
  readonly approversVersion: number;
  /** Why the log is not proven to this host at this moment; empty when it is. */
  readonly unproven?: string;
};

export type OrderCheck = {
  /** Result of `openEnvelope` on the subject that the broker delivered on, with the roster's gateway keys. */
  readonly envelope: OpenedEnvelope;
  readonly order: WorkOrder;
  /** Undefined when the sealed payload did not open. */
  readonly payload: CallPayload | undefined;
  readonly host: string;
  /** True for a key of the audit service that counts now. */
  readonly isAudit: (key: string) => boolean;
  /** Version of the roster that this host knows. */
  readonly rosterVersion: number;
  readonly journal: { readonly createdAtMs: number; readonly knowsOrder: boolean };
  readonly beat: BeatFacts | undefined;
  readonly nowMs: number;
};

export type VerifiedOrder = {
  readonly order: WorkOrder;
  readonly call: ToolCall;
  /** Digest computed here over what will run. */
  readonly executedDigest: Uint8Array;
  /** The order may not start after this. */
  readonly startBeforeMs: number;
};

const refusal = (
  code: OrderRefusalCode,
  action: RefusalAction,
  errorCode: ErrorCode,
  message: string,
): OrderRefusal => ({ code, action, errorCode, message });

const sameBytes = (left: Uint8Array, right: Uint8Array): boolean => Buffer.compare(left, right) === 0;

const canonicalSchema = z.strictObject({
  agent: z.string(),
  call_id: z.string(),
  deadline_ms: z.int().min(0),
  executor: z.literal('runner'),
  session_id: z.string(),
  tool: z.string(),
});

function checkForm({ order, host }: OrderCheck): OrderRefusal | undefined {
  const named = [order.orderId, order.callId, order.agent, order.sessionId].every(isSubjectToken);
  if (!named || order.callDigest.length !== 32) {
    return refusal('malformed_order', 'discard', ERROR_CODES.orderRefused, 'order does not have the expected form');
  }
  if (order.host !== host) {
    return refusal('wrong_host', 'refused', ERROR_CODES.orderRefused, 'order is for another host');
  }
  return undefined;
}

/** SECURITY: a repetition is a new envelope, so that its age says nothing of when the order first went out. */
const issuedAtMs = ({ envelope, order }: OrderCheck): number =>
  Math.min(envelope.issuedAtMs, Number(order.createdAtMs) || envelope.issuedAtMs);

function checkJournal(check: OrderCheck): OrderRefusal | undefined {
  const { journal } = check;
  if (journal.knowsOrder) return refusal('replayed', 'repeat', ERROR_CODES.orderReplayed, 'order was taken before');
  if (issuedAtMs(check) < journal.createdAtMs) {
    const message = 'order is older than the journal of this host; whether it ran is unknown';
    return refusal('journal_younger', 'interrupted', ERROR_CODES.interrupted, message);
  }
  return undefined;
}

/** SECURITY: the receipt must be audit's own and name exactly this order; the gateway's signature alone runs nothing. */
function checkReceipt({ order, isAudit }: OrderCheck): OrderRefusal | undefined {
  const refuse = (code: OrderRefusalCode, message: string) =>
    refusal(code, 'refused', ERROR_CODES.receiptInvalid, message);
  const { receipt } = order;
  if (!receipt) return refuse('receipt_missing', 'order has no audit receipt');
  if (receipt.orderId !== order.orderId) return refuse('receipt_other_order', 'audit receipt is for another order');
  if (receipt.callId !== order.callId) return refuse('receipt_other_call', 'audit receipt is for another call');
  if (receipt.host !== order.host) return refuse('receipt_other_host', 'audit receipt is for another host');
  if (!sameBytes(receipt.callDigest, order.callDigest)) {
    return refuse('receipt_other_digest', 'audit receipt is for other arguments');
  }
  if (!sameBytes(receipt.termsDigest, termsDigest(order))) {
    return refuse('receipt_other_terms', 'audit receipt is for other terms');
  }
  if (!receipt.entryId || !receipt.decidedBy) return refuse('receipt_undecided', 'audit receipt names no decision');
  if (!verifyReceipt(receipt, isAudit)) return refuse('receipt_signature', 'audit receipt does not verify');
  return undefined;
}

const expired = (): OrderRefusal => refusal('expired', 'expired', ERROR_CODES.orderExpired, 'order expired unstarted');

/** Checks that the canonical envelope is canonical and says what the order says; returns the call's own deadline. */
function readCallEnvelope(order: WorkOrder): Result<number, OrderRefusal> {
  const refuse = (code: OrderRefusalCode, message: string) =>
    err(refusal(code, 'refused', ERROR_CODES.digestMismatch, message));
  const json = parseIJson(order.canonicalEnvelope);
  const parsed = canonicalSchema.safeParse(json.ok ? json.value : undefined);
  if (!parsed.success) return refuse('call_envelope_malformed', 'call envelope does not have the expected form');
  const { agent, call_id: callId, session_id: sessionId, tool, executor, deadline_ms: deadlineMs } = parsed.data;
  const again = canonicalEnvelope({ agent, callId, sessionId, tool, executor, deadlineMs });
  if (!sameBytes(again, order.canonicalEnvelope)) {
    return refuse('call_envelope_malformed', 'call envelope is not in canonical form');
  }
  const sameTool = normaliseTool(tool) !== undefined && normaliseTool(tool) === normaliseTool(order.tool);
  if (agent !== order.agent || callId !== order.callId || sessionId !== order.sessionId || !sameTool) {
    return refuse('call_envelope_differs', 'order and call envelope disagree');
  }
  return ok(deadlineMs);
}

function readPayload({ order, payload, nowMs }: OrderCheck): Result<VerifiedOrder, OrderRefusal> {
  const refuse = (code: OrderRefusalCode, message: string) =>
    err(refusal(code, 'refused', ERROR_CODES.digestMismatch, message));
  if (payload?.salt.length !== 32)
    return refuse('payload_unreadable', 'arguments do not open with the key of this host');
  const deadline = readCallEnvelope(order);
  if (!deadline.ok) return deadline;
  const executedDigest = callDigest(payload.salt, payload.arguments, order.canonicalEnvelope);
  if (!sameBytes(executedDigest, order.callDigest)) {
    return refuse('digest_mismatch', 'arguments are not the ones that were decided on');
  }
  const call = parseToolCall(order.tool, payload.arguments);
  if (!call.ok) {
    return err(refusal('arguments_invalid', 'refused', ERROR_CODES.orderRefused, call.error.message));
  }
  const startBeforeMs = Math.min(Number(order.expiresAtMs), deadline.value || Number.POSITIVE_INFINITY);
  if (nowMs >= startBeforeMs) return err(expired());
  return ok({ order, call: call.value, executedDigest, startBeforeMs });
}

/** True for a scope that covers the order, and for every scope that is not understood. */
export function covers(
  scope: string,
  order: Pick<WorkOrder, 'host' | 'agent' | 'sessionId' | 'ancestorSessionIds'>,
): boolean {
  const [kind, id] = scope.split(':', 2);
  if (kind === 'host') return id === order.host;
  if (kind === 'agent') return id === order.agent;
  if (kind === 'session') return id === order.sessionId || order.ancestorSessionIds.some((ancestor) => ancestor === id);
  return true;
}

/** What keeps a verified order from starting at this moment; undefined when nothing does. */
export function startRefusal(
  { order, startBeforeMs }: Pick<VerifiedOrder, 'order' | 'startBeforeMs'>,
  beat: BeatFacts | undefined,
  nowMs: number,
  rosterVersion: number,
): OrderRefusal | undefined {
  if (nowMs >= startBeforeMs) return expired();
  if (beat?.revokedOrders.includes(order.orderId)) {
    return refusal('revoked', 'withdrawn', ERROR_CODES.orderRefused, 'order was revoked before it started');
  }
  const wait = (code: OrderRefusalCode, message: string) => refusal(code, 'wait', ERROR_CODES.beatStale, message);
  if (!beat) return wait('beat_missing', 'no beat of audit was seen');
  if (nowMs - beat.atMs > MAX_BEAT_AGE_MS) return wait('beat_stale', "audit's newest beat is too old");
  // SECURITY: a newer roster may have revoked the very key that signed this order.
  if (rosterVersion < beat.rosterVersion)
    return wait('roster_behind', 'a newer roster is in force; this host waits for it');
  if (beat.unproven) return wait('log_unproven', beat.unproven);
  if (beat.frozenScopes.some((scope) => covers(scope, order))) return wait('frozen', 'scope is frozen');
  return undefined;
}

/**
 * Judges an order on what is passed in, and nothing else. Ok means that it may start now; a `wait` refusal means that it
 * is good but for the moment.
 */
export function verifyOrder(check: OrderCheck): Result<VerifiedOrder, OrderRefusal> {
  const refused = checkForm(check) ?? checkJournal(check) ?? checkReceipt(check);
  if (refused) return err(refused);
  if (check.nowMs >= Number(check.order.expiresAtMs)) return err(expired());
  const verified = readPayload(check);
  if (!verified.ok) return verified;
  const waits = startRefusal(verified.value, check.beat, check.nowMs, check.rosterVersion);
  return waits ? err(waits) : verified;
}
