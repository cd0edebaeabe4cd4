import type { AuditEntry, EntryType } from './entry.ts';

/** What is known of a call while its entries are read in order. */
type Story = {
  /** Its beginning was dropped, so that nothing can be said of what follows. */
  cut: boolean;
  received: boolean;
  decision: 'allow' | 'deny' | undefined;
  /** How the effect left the gateway. */
  sent: 'dispatched' | 'handed_over' | undefined;
  started: boolean;
  ended: boolean;
  closed: boolean;
  /** Commitment to the arguments that were received. */
  args: unknown;
  /** People who have answered. */
  answered: readonly unknown[];
};
export type Stories = Map<string, Story>;
type StoryProblem = { readonly code: string; readonly message: string };

/** No call seen yet. */
export const newStories = (): Stories => new Map();

const NOBODY: readonly unknown[] = [];

type Check = (story: Story, entry: AuditEntry) => StoryProblem | undefined;

const problem = (code: string, message: string): StoryProblem => ({ code, message });

function checkDecision(story: Story, entry: AuditEntry): StoryProblem | undefined {
  const effect = entry.decision?.effect;
  if (story.decision !== undefined) return problem('second_decision', 'call was decided before');
  if (effect !== 'allow' && effect !== 'deny') return problem('bad_decision', 'decision is neither allow nor deny');
  story.decision = effect;
  const { decided_by: by } = entry.decision ?? {};
  if (by === 'human' && !story.answered.includes(entry.approver?.subject))
    return problem('decision_without_answer', 'decision of a person who has not answered');
  return undefined;
}

const needsAllow: Check = (story) => {
  if (story.decision === 'allow') return undefined;
  return problem('effect_without_decision', 'effect without an earlier decision that allows it');
};

const leaves =
  (way: 'dispatched' | 'handed_over'): Check =>
  (story, entry) => {
    const missing = needsAllow(story, entry);
    if (missing) return missing;
    if (story.sent) return problem('dispatched_twice', `call was ${story.sent.replace('_', ' ')} before`);
    story.sent = way;
    return undefined;
  };

function checkStarted(story: Story, entry: AuditEntry): StoryProblem | undefined {
  const missing = needsAllow(story, entry);
  if (missing) return missing;
  if (story.sent !== 'dispatched') return problem('started_without_dispatch', 'execution without a dispatch');
  if (story.started) return problem('started_twice', 'call was started before');
  story.started = true;
  return undefined;
}

const needsDispatch: Check = (story) =>
  story.sent === 'dispatched' ? undefined : problem('refused_without_dispatch', 'refusal of an order never sent');

/** A call that was handed over is run by its agent, so no start is recorded for it. */
const checkFinished: Check = (story, entry) => {
  if (!story.started && story.sent !== 'handed_over') return problem('finished_without_start', 'end without a start');
  return checkEnd(story) ?? checkExecuted(story, entry);
};

/** INVARIANT: what ran is what was received. A host that could not tell what it ran says nothing. */
function checkExecuted(story: Story, entry: AuditEntry): StoryProblem | undefined {
  const executed = entry.detail?.executed;
  if (typeof executed !== 'string' || executed === '' || story.args === undefined || executed === story.args)
    return undefined;
  return problem('executed_differs', 'executed arguments are not the received ones');
}

/** A dispatched call may be interrupted before any start was reported. */
const checkInterrupted: Check = (story) => {
  if (!story.sent) return problem('interrupted_without_dispatch', 'interruption of a call that never left');
  return checkEnd(story);
};

function checkEnd(story: Story): StoryProblem | undefined {
  if (story.ended) return problem('ended_twice', 'execution ended before');
  story.ended = true;
  return undefined;
}

/** INVARIANT: what each type demands of the story before it. */
const CHECKS: Partial<Record<EntryType, Check>> = {
  'call.received': (story, entry) => {
    if (story.received) return problem('received_twice', 'call was received before');
    story.received = true;
    story.args = entry.tool?.args_commitment;
    return undefined;
  },
  decision: checkDecision,
  'dispatch.sent': leaves('dispatched'),
  handed_over: leaves('handed_over'),
  'exec.refused': needsDispatch,
  'exec.started': checkStarted,
  'exec.backgrounded': (story) =>
    story.started ? undefined : problem('backgrounded_without_start', 'sent to the background without a start'),
  'exec.finished': checkFinished,
  'exec.interrupted': checkInterrupted,
  'approval.answered': (story, entry) => {
    story.answered = [...story.answered, entry.approver?.subject];
    return undefined;
  },
  'call.closed': (story, entry) => {
    story.closed = true;
    if (entry.detail?.state !== 'done' || story.ended) return undefined;
    return problem('closed_without_end', 'closed as done without an end of its execution');
  },
};

/** SECURITY: these say nothing without a call; one that names none would escape every check of its story. */
const NEEDS_CALL: ReadonlySet<EntryType> = new Set<EntryType>([
  ...(Object.keys(CHECKS) as EntryType[]),
  'call.rejected',
  'call.cancel_requested',
  'result.delivered',
]);

/**
 * Adds `entry` to the story of its call and tells what is wrong with it. `continues`: a call that is met first here began
 * among entries that were dropped; nothing is said of it.
 */
export function checkStory(stories: Stories, entry: AuditEntry, continues = false): StoryProblem[] {
  if (entry.call === undefined) {
    return NEEDS_CALL.has(entry.type)
      ? [problem('no_call', `\`${entry.type}\` without the call that it is about`)]
      : [];
  }
  const check = CHECKS[entry.type];
  let story = stories.get(entry.call);
  if (!story) {
    story = {
      cut: continues,
      received: false,
      decision: undefined,
      sent: undefined,
      started: false,
      ended: false,
      closed: false,
      args: undefined,
      answered: NOBODY,
    };
    stories.set(entry.call, story);
  }
  if (story.cut) {
    story.closed ||= entry.type === 'call.closed' || entry.type === 'audit.read';
    return [];
  }
  const found: StoryProblem[] = [];
  const readsOnly = entry.type === 'audit.read' || entry.type === 'call.cancel_requested';
  if (story.closed && !readsOnly) found.push(problem('after_close', 'entry after the call was closed'));
  if (!story.received && entry.type !== 'call.received') found.push(problem('not_received', 'call has no beginning'));
  const wrong = check?.(story, entry);
  if (wrong) found.push(wrong);
  return found;
}
