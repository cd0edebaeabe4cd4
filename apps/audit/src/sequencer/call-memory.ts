import { type CallDraft, CallRecord } from '@countersign/protocol';

/** Where the decision of a call is recorded; what its receipt binds. */
export type DecisionEntry = {
  readonly id: string;
  readonly index: number;
  readonly leafHash: string;
  readonly assertionsDigest: string;
};

/** A call as the sequencer holds it. Replaced, never changed, so that a refused request leaves nothing behind. */
export type CallMemory = { readonly record: CallRecord; readonly decision: DecisionEntry | undefined };

/** The record of a call at its first entry. */
export function newCall(draft: CallDraft, recordedMs: number): CallMemory {
  const record = CallRecord.fromPartial({
    callId: draft.callId,
    agent: draft.agent,
    sessionId: draft.sessionId,
    host: draft.host,
    tool: draft.tool,
    action: draft.action,
    summary: draft.summary,
    callDigest: draft.callDigest,
    deadlineMs: draft.deadlineMs,
    queue: draft.queue,
    principal: draft.principal,
    canonicalEnvelope: draft.canonicalEnvelope,
    traceparent: draft.traceparent,
    ancestorSessionIds: draft.ancestorSessionIds,
    executor: draft.executor,
    receivedMs: BigInt(recordedMs),
    updatedMs: BigInt(recordedMs),
  });
  return { record, decision: undefined };
}
