import { isCallState, isTerminal, isTransitionAllowed } from '@countersign/kernel';
import { AppendRefusal, type AppendRequest, type EntryDraft } from '@countersign/protocol';
import { type FreezeState, freezeOf } from '../freeze/freeze-state.ts';
import type { GrantMemory } from '../grants/grant-memory.ts';
import { judgeGrants } from '../grants/judge-grants.ts';
import { type CallMemory, newCall } from './call-memory.ts';
import type { KnownDocument } from './cold-state.ts';
import { checkAfterEnd, checkClosed, checkEntryRules } from './entry-rules.ts';
import { sha256 } from './sha256.ts';

/** What the sequencer knows when it judges a request. */
export type JudgeView = {
  readonly call: (callId: string) => CallMemory | undefined;
  readonly document: (kind: string, key: string) => KnownDocument | undefined;
  readonly freezes: FreezeState;
  readonly nowMs: number;
};

/** A request that may be recorded: calls and grants as they will be. */
export type Judged = {
  readonly ok: true;
  readonly calls: Map<string, CallMemory>;
  readonly grants: readonly GrantMemory[];
};
export type Refused = { readonly ok: false; readonly refusal: AppendRefusal };

const DOCUMENT_KINDS: ReadonlySet<string> = new Set([
  ...['member', 'session', 'policy', 'rule', 'trust', 'request', 'grants'],
  // What permission files took away, by their digest.
  'policy_file',
  // Reviewed file changes, by their call; journals of hosts.
  ...['file_review', 'journal'],
  // What models said beside people, and how often they agreed.
  ...['guardian_opinion', 'guardian_figures'],
  // Who may do what: people, tokens, enrolment, partial answers, credentials.
  ...['person', 'token', 'invitation', 'approval', 'passkey', 'approver_list', 'roster', 'review', 'delegation'],
  // Saved questions of auditors; what the record itself holds and erases.
  ...['query', 'hold', 'erasure', 'partition'],
]);
/** States in which a call is held by the freeze of its scope. */
const HELD_STATES: ReadonlySet<string> = new Set(['approved', 'dispatched', 'handed_over']);

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

const staleCode = (kind: string): string =>
  kind === 'session' || kind === 'grants' ? `stale_${kind}` : 'stale_policy';

/**
 * INVARIANT: what a decision stood on is what there is: its session, every ancestor of it up to the root, and each other
 * document that it names, at the versions that it names.
 */
function checkBasis(request: AppendRequest, view: JudgeView): Refused | undefined {
  for (const { kind, key, version } of request.expected) {
    if ((view.document(kind, key)?.version ?? 0n) !== version)
      return refuse(staleCode(kind), `${kind} \`${key}\` changed after the decision; decide again`);
  }
  if (request.sessionVersion === 0n) return undefined;
  const session = view.document('session', request.sessionId);
  if (session?.version !== request.sessionVersion)
    return refuse('stale_session', 'session changed after the decision; decide again');
  const named = new Set(request.expected.filter(({ kind }) => kind === 'session').map(({ key }) => key));
  let parent = session.parent ?? '';
  while (parent !== '') {
    if (!named.delete(parent)) return refuse('invalid', `ancestor \`${parent.slice(0, 80)}\` is not named`);
    parent = view.document('session', parent)?.parent ?? '';
  }
  return undefined;
}

function checkDocuments(request: AppendRequest, view: JudgeView): Refused | undefined {
  for (const draft of request.documents) {
    if (!DOCUMENT_KINDS.has(draft.kind)) return refuse('invalid', `document kind \`${draft.kind}\` is not known`);
    if ((view.document(draft.kind, draft.key)?.version ?? 0n) !== draft.expectedVersion) {
      return refuse('conflict', `document \`${draft.key}\` has another version; read it again`);
    }
  }
  return checkBasis(request, view);
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

/** INVARIANT: nothing in a frozen scope is approved or leaves, whatever the gateway believed when it decided. */
function checkFreeze(draft: EntryDraft, call: CallMemory, request: AppendRequest, view: JudgeView) {
  if (!HELD_STATES.has(draft.toState)) return undefined;
  const target = draft.toState === 'dispatched' ? view.freezes.freezes.get(`host:${request.orderHost}`) : undefined;
  const freeze = freezeOf(view.freezes, call.record) ?? target;
  if (freeze) return refuse('frozen', `\`${freeze.scope}\` is frozen: ${freeze.reason}`, call);
  const effect = draft.toState !== 'approved';
  if (effect && request.freezeEpoch !== view.freezes.epoch)
    return refuse('stale_freeze', 'freeze state changed after the decision; decide again', call);
  return undefined;
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
  const held = checkFreeze(draft, call, request, view);
  if (held) return held;
  const unfit = checkWay(draft.toState, call, request);
  if (unfit !== undefined) return refuse('invalid', unfit, call);
  calls.set(draft.callId, moved(call, draft.toState, request, view.nowMs));
  return undefined;
}

/** INVARIANT: a host gets a call of a runner only, and its agent one of his own only; a receipt names what it is for. */
function checkWay(toState: string, { record }: CallMemory, { orderId, orderHost }: AppendRequest): string | undefined {
  const atAgent = record.executor === 'agent';
  if (toState === 'dispatched') {
    if (atAgent) return 'a call that its agent carries out is not dispatched';
    return orderId === '' || orderHost === '' ? 'a dispatch needs an order id and a host' : undefined;
  }
  if (toState !== 'handed_over') return undefined;
  if (!atAgent) return 'a call of a runner is not handed over';
  return orderId === '' || orderHost !== '' ? 'a hand-over needs an order id and names no host' : undefined;
}

function moved(call: CallMemory, state: string, request: AppendRequest, nowMs: number): CallMemory {
  const decides = request.decidedBy !== '' && (state === 'approved' || state === 'denied');
  const dispatches = state === 'dispatched' || state === 'handed_over';
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
      ...(request.fileChanges.length === 0 ? {} : { fileChanges: request.fileChanges }),
    },
  };
}

/** A new call in a frozen scope may be recorded only with its end. */
function checkNewCall(subject: CallMemory | undefined, view: JudgeView): Refused | undefined {
  if (!subject || (isCallState(subject.record.state) && isTerminal(subject.record.state))) return undefined;
  const freeze = freezeOf(view.freezes, subject.record);
  return freeze && refuse('frozen', `\`${freeze.scope}\` is frozen: ${freeze.reason}`);
}

/** What is refused before any entry is looked at. */
function checkBefore(request: AppendRequest, view: JudgeView, before: CallMemory | undefined): Refused | undefined {
  const documents = checkDocuments(request, view);
  if (documents) return documents;
  if (before && request.call && before.record.agent !== request.call.agent)
    return refuse('conflict', 'call id belongs to another agent');
  if (
    request.expectedViewDigest.length > 0 &&
    !sameBytes(before?.record.viewDigest ?? Buffer.alloc(0), request.expectedViewDigest)
  ) {
    return refuse('stale_view', 'the answer was given on another view of the call; read it again', before);
  }
  return undefined;
}

/** The calls with what the request says of them beside their states. */
function withFacts(request: AppendRequest, calls: Map<string, CallMemory>): Map<string, CallMemory> {
  for (const [callId, call] of calls) {
    let { record } = call;
    if (request.view.length > 0) {
      const viewDigest = sha256(request.view);
      record = { ...record, view: request.view, viewDigest };
    }
    if (request.entries.some((draft) => draft.callId === callId && draft.type === 'call.cancel_requested'))
      record = { ...record, stopRequested: true };
    calls.set(callId, { ...call, record });
  }
  return calls;
}

/** Judges one request against the present state. Nothing is changed; the caller takes over what is returned when it records. */
export function judge(request: AppendRequest, view: JudgeView): Judged | Refused {
  const calls = new Map<string, CallMemory>();
  const subject = request.entries.find((draft) => draft.callId !== '')?.callId ?? '';
  const before = subject === '' ? undefined : view.call(subject);
  const early = checkBefore(request, view, before);
  if (early) return early;
  for (const draft of request.entries) {
    const refused = step(draft, request, view, calls);
    if (refused) return refused;
    const late = before && draft.callId !== '' ? checkAfterEnd(draft, before.record.state) : undefined;
    if (late !== undefined) return refuse('lost', late, before);
  }
  const unclosed = subject === '' ? undefined : checkClosed(request, subject);
  if (unclosed !== undefined) return refuse('invalid', unclosed, before);
  const frozen = before ? undefined : checkNewCall(calls.get(subject), view);
  if (frozen) return frozen;
  const grants = judgeGrants(request, {
    grant: (id) => view.document('grant', id)?.grant,
    call: calls.get(subject)?.record,
    nowMs: view.nowMs,
  });
  if (!grants.ok) return refuse(grants.error.code, grants.error.message, before);
  return { ok: true, calls: withFacts(request, calls), grants: grants.value };
}
