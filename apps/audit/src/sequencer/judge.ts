import { createHash } from 'node:crypto';
import { isCallState, isTransitionAllowed } from '@countersign/kernel';
import { AppendRefusal, type AppendRequest, type EntryDraft } from '@countersign/protocol';
import { type CallMemory, newCall } from './call-memory.ts';
import { checkAfterEnd, checkClosed, checkEntryRules } from './entry-rules.ts';

/** What the sequencer knows when it judges a request. */
export type JudgeView = {
  readonly call: (callId: string) => CallMemory | undefined;
  readonly documentVersion: (kind: string, key: string) => bigint;
  readonly hasEntry: (id: string) => boolean;
  readonly freezeEpoch: bigint;
  readonly nowMs: number;
};

/** A request that may be recorded: the calls as they will be. */
export type Judged = { readonly ok: true; readonly calls: Map<string, CallMemory> };
export type Refused = { readonly ok: false; readonly refusal: AppendRefusal };

const DOCUMENT_KINDS: ReadonlySet<string> = new Set([
  ...['member', 'session', 'policy', 'rule', 'trust', 'request', 'grants'],
  // Who may do what: people, tokens, enrolment, partial answers, credentials.
  ...['person', 'token', 'invitation', 'approval', 'passkey', 'approver_list', 'roster', 'review'],
]);

/** Ids of the two entries of a grant's life: it ends once, revoked or expired. */
export const grantEntry = (grant: string, end: 'created' | 'ended'): string => `ent_${grant}_grant.${end}_1`;

const refuse = (code: string, message: string, call?: CallMemory): Refused => ({
  ok: false,
  refusal: AppendRefusal.fromPartial({
    code: `countersign.audit.${code}`,
    message,
    state: call?.record.state ?? '',
    winner: call?.record.decidedByName ?? '',
    winnerKind: call?.record.decidedBy ?? '',
  }),
});

function checkDocuments(request: AppendRequest, view: JudgeView): Refused | undefined {
  for (const draft of request.documents) {
    if (!DOCUMENT_KINDS.has(draft.kind)) return refuse('invalid', `document kind \`${draft.kind}\` is not known`);
    if (view.documentVersion(draft.kind, draft.key) !== draft.expectedVersion) {
      return refuse('conflict', `document \`${draft.key}\` has another version; read it again`);
    }
  }
  if (request.sessionVersion !== 0n && view.documentVersion('session', request.sessionId) !== request.sessionVersion) {
    return refuse('stale_session', 'session changed after the decision; decide again');
  }
  return checkBasis(request, view);
}

const staleCode = (kind: string): string =>
  kind === 'session' || kind === 'grants' ? `stale_${kind}` : 'stale_policy';

/** What the decision stood on: documents at their versions, and grants that are still alive. */
function checkBasis(request: AppendRequest, view: JudgeView): Refused | undefined {
  for (const { kind, key, version } of request.expected) {
    if (view.documentVersion(kind, key) !== version)
      return refuse(staleCode(kind), `${kind} \`${key}\` changed after the decision; decide again`);
  }
  for (const grant of request.grants) {
    if (!view.hasEntry(grantEntry(grant, 'created')) || view.hasEntry(grantEntry(grant, 'ended')))
      return refuse('stale_grants', `grant \`${grant}\` has ended; decide again`);
  }
  return undefined;
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

function step(
  draft: EntryDraft,
  request: AppendRequest,
  view: JudgeView,
  calls: Map<string, CallMemory>,
): Refused | undefined {
  if (draft.callId === '') {
    const wrong = draft.toState === '' ? checkEntryRules(draft, '', request) : 'a transition needs a call id';
    return wrong === undefined ? undefined : refuse('invalid', wrong);
  }
  let call = calls.get(draft.callId) ?? view.call(draft.callId);
  if (!call) {
    if (draft.toState !== 'received' || request.call?.callId !== draft.callId)
      return refuse('not_found', `call \`${draft.callId}\` is not known`);
    const wrong = checkEntryRules(draft, '', request);
    if (wrong !== undefined) return refuse('invalid', wrong);
    call = newCall(request.call, view.nowMs);
    calls.set(draft.callId, { ...call, record: { ...call.record, state: 'received' } });
    return undefined;
  }
  calls.set(draft.callId, call);
  const from = call.record.state;
  const wrong = checkEntryRules(draft, from, request);
  if (draft.toState === '') return wrong === undefined ? undefined : refuse('invalid', wrong, call);
  if (!isCallState(draft.toState)) return refuse('invalid', `state \`${draft.toState}\` is not in the table`, call);
  if (!isCallState(from) || !isTransitionAllowed(from, draft.toState)) {
    return refuse('lost', `call is \`${from}\`; it cannot become \`${draft.toState}\``, call);
  }
  if (wrong !== undefined) return refuse('invalid', wrong, call);
  const effect = draft.toState === 'dispatched' || draft.toState === 'handed_over';
  if (effect && request.freezeEpoch !== view.freezeEpoch)
    return refuse('frozen', 'freeze state changed after the decision; decide again', call);
  if (draft.toState === 'dispatched' && (request.orderId === '' || request.orderHost === '')) {
    return refuse('invalid', 'a dispatch needs an order id and a host', call);
  }
  calls.set(draft.callId, moved(call, draft.toState, request, view.nowMs));
  return undefined;
}

function moved(call: CallMemory, state: string, request: AppendRequest, nowMs: number): CallMemory {
  const decides = request.decidedBy !== '' && (state === 'approved' || state === 'denied');
  const dispatches = state === 'dispatched';
  return {
    ...call,
    record: {
      ...call.record,
      state,
      updatedMs: BigInt(nowMs),
      ...(decides ? { decidedBy: request.decidedBy, decidedByName: request.decidedByName } : {}),
      ...(dispatches
        ? {
            orderId: request.orderId,
            orderHost: request.orderHost,
            orderExpiresAtMs: request.orderExpiresAtMs,
            termsDigest: request.termsDigest,
          }
        : {}),
      ...(request.reason === '' ? {} : { reason: request.reason }),
    },
  };
}

/** Judges one request against the present state. Nothing is changed; the caller takes over `calls` when it records. */
export function judge(request: AppendRequest, view: JudgeView): Judged | Refused {
  const documents = checkDocuments(request, view);
  if (documents) return documents;
  const calls = new Map<string, CallMemory>();
  const subject = request.entries.find((draft) => draft.callId !== '')?.callId;
  const before = subject === undefined ? undefined : view.call(subject);
  if (before && request.call && before.record.agent !== request.call.agent)
    return refuse('conflict', 'call id belongs to another agent');
  if (
    request.expectedViewDigest.length > 0 &&
    !sameBytes(before?.record.viewDigest ?? Buffer.alloc(0), request.expectedViewDigest)
  ) {
    return refuse('stale_view', 'the answer was given on another view of the call; read it again', before);
  }
  for (const draft of request.entries) {
    const refused = step(draft, request, view, calls);
    if (refused) return refused;
    const late = before && draft.callId !== '' ? checkAfterEnd(draft, before.record.state) : undefined;
    if (late !== undefined) return refuse('lost', late, before);
  }
  const unclosed = subject === undefined ? undefined : checkClosed(request, subject);
  if (unclosed !== undefined) return refuse('invalid', unclosed, before);
  for (const [callId, call] of calls) {
    if (request.view.length > 0) {
      const viewDigest = new Uint8Array(createHash('sha256').update(request.view).digest());
      calls.set(callId, { ...call, record: { ...call.record, view: request.view, viewDigest } });
    }
    if (request.entries.some((draft) => draft.callId === callId && draft.type === 'call.cancel_requested')) {
      calls.set(callId, { ...call, record: { ...call.record, stopRequested: true } });
    }
  }
  return { ok: true, calls };
}
