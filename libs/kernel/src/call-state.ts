/** States of a tool call, in the order in which a call can meet them. */
export const CALL_STATES = [
  'received',
  'rejected',
  'denied',
  'pending',
  'approved',
  'dispatched',
  'handed_over',
  'running',
  'backgrounded',
  'cancelled',
  'expired',
  'withdrawn',
  'refused',
  'done',
  'failed',
  'timed_out',
  'stopped',
  'interrupted',
  'unknown',
] as const;

export type CallState = (typeof CALL_STATES)[number];

/**
 * INVARIANT: the only transitions there are. A state without successors is terminal.
 * `dispatched → expired` needs the runner's proof that nothing started; `dispatched → interrupted`
 * is the answer when no report came by expiry and grace.
 */
export const CALL_TRANSITIONS: Readonly<Record<CallState, readonly CallState[]>> = {
  received: ['rejected', 'denied', 'pending', 'approved', 'cancelled', 'expired'],
  pending: ['approved', 'denied', 'cancelled', 'expired', 'withdrawn'],
  approved: ['dispatched', 'handed_over', 'cancelled', 'expired', 'withdrawn'],
  dispatched: ['running', 'refused', 'withdrawn', 'expired', 'interrupted'],
  running: ['done', 'failed', 'timed_out', 'stopped', 'interrupted', 'backgrounded'],
  backgrounded: ['done', 'failed', 'timed_out', 'stopped', 'interrupted'],
  handed_over: ['done', 'failed', 'unknown'],
  rejected: [],
  denied: [],
  cancelled: [],
  expired: [],
  withdrawn: [],
  refused: [],
  done: [],
  failed: [],
  timed_out: [],
  stopped: [],
  interrupted: [],
  unknown: [],
};

/** True when the table has the step `from → to`. */
export const isTransitionAllowed = (from: CallState, to: CallState): boolean => CALL_TRANSITIONS[from].includes(to);

/** True when nothing can follow `state`. */
export const isTerminal = (state: CallState): boolean => CALL_TRANSITIONS[state].length === 0;

/** Narrows a text to a state; false for anything not in the table. */
export const isCallState = (text: string): text is CallState => Object.hasOwn(CALL_TRANSITIONS, text);
