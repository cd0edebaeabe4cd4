import { type CallState, isCallState, isTerminal } from '@countersign/kernel';
import type { AppendRequest, EntryDraft } from '@countersign/protocol';
import { readBody } from './check-request.ts';

/** INVARIANT: the states that an entry of each type moves its call to; such an entry always moves it. */
const STATES: Readonly<Record<string, readonly CallState[]>> = {
  'call.received': ['received'],
  'call.rejected': ['rejected'],
  decision: ['approved', 'denied'],
  'dispatch.sent': ['dispatched'],
  handed_over: ['handed_over'],
  'exec.started': ['running'],
  'exec.backgrounded': ['backgrounded'],
  'exec.finished': ['done', 'failed', 'timed_out', 'stopped'],
  'exec.interrupted': ['interrupted', 'unknown'],
  'exec.refused': ['refused', 'expired', 'withdrawn'],
};

/** States in which a call may stand after an entry of this type and, of a decision, effect; none when it moves no call. */
export function statesAfter(type: string, effect: unknown): readonly string[] {
  if (type === 'decision') return [effect === 'allow' ? 'approved' : 'denied'];
  if (type === 'call.received') return ['received', 'pending'];
  if (type === 'approval.requested') return ['pending'];
  return Object.hasOwn(STATES, type) ? (STATES[type] ?? []) : [];
}

/** States that other types may lead to as well. */
const SHARED_STATES: ReadonlySet<string> = new Set(['expired', 'withdrawn', 'unknown']);
const TYPE_OF = new Map(
  Object.entries(STATES).flatMap(([type, states]) =>
    states.filter((state) => !SHARED_STATES.has(state)).map((state) => [state as string, type] as const),
  ),
);
const DECIDERS: ReadonlySet<string> = new Set(['rule', 'human', 'guardian', 'grant', 'mode', 'eternal', 'timeout']);
/** What may be said of a call that has ended. */
const AFTER_END: ReadonlySet<string> = new Set(['call.closed', 'call.cancel_requested', 'audit.read']);

const isEnd = (state: string): boolean => isCallState(state) && isTerminal(state);

/** True when an entry of this type says nothing without a call. */
const needsCall = (type: string): boolean =>
  Object.hasOwn(STATES, type) || type.startsWith('call.') || type === 'result.delivered';

function checkDecision(draft: EntryDraft, request: AppendRequest): string | undefined {
  const body = readBody(draft);
  const decision = typeof body === 'string' ? undefined : body.decision;
  const effect =
    typeof decision === 'object' && decision !== null && 'effect' in decision ? decision.effect : undefined;
  if (effect !== (draft.toState === 'approved' ? 'allow' : 'deny'))
    return `decision says \`${String(effect).slice(0, 20)}\` and moves the call to \`${draft.toState}\``;
  return DECIDERS.has(request.decidedBy) ? undefined : 'a decision names what decided it in `decided_by`';
}

/** Why an entry contradicts the transition that it makes; `state` is the call's state before it. */
export function checkEntryRules(draft: EntryDraft, state: string, request: AppendRequest): string | undefined {
  if (draft.callId === '')
    return needsCall(draft.type) ? `\`${draft.type}\` needs the call that it is about` : undefined;
  const states = Object.hasOwn(STATES, draft.type) ? STATES[draft.type] : undefined;
  if (states && !(states as readonly string[]).includes(draft.toState))
    return `\`${draft.type}\` cannot move a call to \`${draft.toState}\``;
  const type = TYPE_OF.get(draft.toState);
  if (type !== undefined && type !== draft.type) return `only \`${type}\` moves a call to \`${draft.toState}\``;
  if (draft.type === 'decision') return checkDecision(draft, request);
  if (draft.type !== 'call.closed') return undefined;
  if (draft.id !== `ent_${draft.callId}_call.closed_1`) return 'a call is closed once; use attempt 1';
  return isEnd(draft.toState === '' ? state : draft.toState) ? undefined : `call is \`${state}\`; it has not ended`;
}

/** Why a request may not say this of a call that had ended before it. */
export function checkAfterEnd(draft: EntryDraft, stateBefore: string): string | undefined {
  if (!isEnd(stateBefore) || AFTER_END.has(draft.type)) return undefined;
  return `call is \`${stateBefore}\`; nothing can be added to it`;
}

/** Why a request leaves a call that it ends without its `call.closed`. */
export function checkClosed(request: AppendRequest, callId: string): string | undefined {
  const drafts = request.entries.filter((draft) => draft.callId === callId);
  if (!drafts.some((draft) => isEnd(draft.toState)) || drafts.some((draft) => draft.type === 'call.closed'))
    return undefined;
  return 'a request that ends a call holds its `call.closed`';
}
