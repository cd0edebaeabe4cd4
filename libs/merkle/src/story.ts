import type { AuditEntry, EntryType } from './entry.ts';

/** What is known of a call while its entries are read in order. */
type Story = {
  received: boolean;
  decision: 'allow' | 'deny' | undefined;
  dispatched: boolean;
  started: boolean;
  closed: boolean;
};
export type Stories = Map<string, Story>;
type StoryProblem = { readonly code: string; readonly message: string };

/** No call seen yet. */
export const newStories = (): Stories => new Map();

type Check = (story: Story, entry: AuditEntry) => StoryProblem | undefined;

const problem = (code: string, message: string): StoryProblem => ({ code, message });

function checkDecision(story: Story, entry: AuditEntry): StoryProblem | undefined {
  const effect = entry.decision?.effect;
  if (story.decision !== undefined) return problem('second_decision', 'call was decided before');
  if (effect !== 'allow' && effect !== 'deny') return problem('bad_decision', 'decision is neither allow nor deny');
  story.decision = effect;
  return undefined;
}

const needsAllow: Check = (story) => {
  if (story.decision === 'allow') return undefined;
  return problem('effect_without_decision', 'effect without an earlier decision that allows it');
};

/** INVARIANT: what each type demands of the story before it. */
const CHECKS: Partial<Record<EntryType, Check>> = {
  'call.received': (story) => {
    if (story.received) return problem('received_twice', 'call was received before');
    story.received = true;
    return undefined;
  },
  decision: checkDecision,
  'dispatch.sent': (story, entry) => {
    const missing = needsAllow(story, entry);
    if (missing) return missing;
    if (story.dispatched) return problem('dispatched_twice', 'call was dispatched before');
    story.dispatched = true;
    return undefined;
  },
  handed_over: needsAllow,
  'exec.started': (story, entry) => {
    const missing = needsAllow(story, entry);
    if (missing) return missing;
    if (!story.dispatched) return problem('started_without_dispatch', 'execution without a dispatch');
    if (story.started) return problem('started_twice', 'call was started before');
    story.started = true;
    return undefined;
  },
  'exec.finished': (story) => (story.started ? undefined : problem('finished_without_start', 'end without a start')),
  'call.closed': (story) => {
    story.closed = true;
    return undefined;
  },
};

/** Adds `entry` to the story of its call and tells what is wrong with it. */
export function checkStory(stories: Stories, entry: AuditEntry): StoryProblem[] {
  if (entry.call === undefined) return [];
  const check = CHECKS[entry.type];
  let story = stories.get(entry.call);
  if (!story) {
    story = { received: false, decision: undefined, dispatched: false, started: false, closed: false };
    stories.set(entry.call, story);
  }
  const found: StoryProblem[] = [];
  const readsOnly = entry.type === 'audit.read' || entry.type === 'call.cancel_requested';
  if (story.closed && !readsOnly) found.push(problem('after_close', 'entry after the call was closed'));
  if (!story.received && entry.type !== 'call.received') found.push(problem('not_received', 'call has no beginning'));
  const wrong = check?.(story, entry);
  if (wrong) found.push(wrong);
  return found;
}
