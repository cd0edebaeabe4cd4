import type { QueueSource } from '../types.ts';
import { isInWindow } from './queue-time.ts';

/** A person as the directory has him now. */
export interface Approver {
  readonly subject: string;
  readonly groups: readonly string[];
  /** People who let him decide for them now, with the groups that each of them is in and has passed on. */
  readonly delegators: readonly { readonly subject: string; readonly groups: readonly string[] }[];
}

/** The facts of a call that its approval depends on. */
export interface ApprovalFacts {
  /** The person for whom the agent acts. */
  readonly requester: string;
  /** Whoever lets the requester decide for him. */
  readonly requesterDelegators: readonly string[];
  readonly sessionOwner: string;
  /** Approvals that the rule demands; the queue may demand more. */
  readonly approvals: number;
  readonly waitingSinceMs: number;
  readonly nowMs: number;
}

/** Why an answer does not count: a person who never may, or has already, or has no say here, or not at this hour. */
export interface AnswerRefusal {
  readonly kind: 'excluded' | 'double' | 'stranger' | 'hours';
  readonly message: string;
}

/** What is still missing, and who was counted for what. */
export interface Standing {
  readonly satisfied: boolean;
  /** Groups that lack people, in the order of the queue; an empty name stands for any approver. */
  readonly missing: readonly { readonly group: string; readonly count: number }[];
  readonly counted: readonly string[];
}

const MINUTE_MS = 60_000;

/** Slots that people fill: one for each approval that is needed, with the groups that fill it. */
function slotsOf(queue: QueueSource, facts: ApprovalFacts): { group: string; groups: readonly string[] }[] {
  const raised = isEscalated(queue, facts) ? (queue.escalation?.approvers ?? []) : [];
  const slots = (queue.quorum ?? []).flatMap(({ group, count }) =>
    Array.from({ length: count }, () => ({ group, groups: [group, ...raised] })),
  );
  const needed = Math.max(1, queue.approvals ?? 0, facts.approvals);
  const any = queue.approvers === undefined ? [] : [...queue.approvers, ...raised];
  while (slots.length < needed) slots.push({ group: '', groups: any });
  return slots;
}

/** True when the call has waited so long that the escalation's groups may decide too. */
export function isEscalated(queue: QueueSource, facts: Pick<ApprovalFacts, 'waitingSinceMs' | 'nowMs'>): boolean {
  const after = queue.escalation?.afterMinutes;
  return after !== undefined && facts.nowMs - facts.waitingSinceMs >= after * MINUTE_MS;
}

/** SECURITY: directories do not tell case apart, so that `Ann` may not decide for `ann`. */
const isSame = (left: string, right: string): boolean => left.toLowerCase() === right.toLowerCase();

/** Why this person may never count for this call; undefined when he may. */
function exclusion(queue: QueueSource, facts: ApprovalFacts, subject: string): string | undefined {
  if (isSame(subject, facts.requester)) return 'nobody may decide on a call made for himself';
  if (facts.requesterDelegators.some((delegator) => isSame(delegator, subject)))
    return 'the requester acts for you, so you may not decide';
  if (queue.separationOfDuties && isSame(subject, facts.sessionOwner))
    return 'the owner of the session may not decide in this queue';
  return undefined;
}

const fits = (slot: { groups: readonly string[] }, groups: ReadonlySet<string>): boolean =>
  slot.groups.length === 0 || slot.groups.some((group) => groups.has(group));

/** Whose authority an answer uses, and the groups that come with it. */
interface Authority {
  readonly groups: ReadonlySet<string>;
  /** Empty when the person counts for himself. */
  readonly givers: readonly string[];
}

/**
 * A person counts for himself when one of his own groups decides here, else for those who let him decide. INVARIANT: one
 * authority counts once, so that a delegator and his delegate are not two people, and nobody lends what he may not use.
 */
function authorityOf(queue: QueueSource, facts: ApprovalFacts, person: Approver): Authority {
  const own = new Set(person.groups);
  if (slotsOf(queue, facts).some((slot) => fits(slot, own))) return { groups: own, givers: [] };
  const lent = queue.delegation
    ? person.delegators.filter(({ subject }) => exclusion(queue, facts, subject) === undefined)
    : [];
  return { groups: new Set(lent.flatMap(({ groups }) => groups)), givers: lent.map(({ subject }) => subject) };
}

/**
 * Why this person's answer is refused; undefined when it counts. `approves` false is a denial, which no hours holds back.
 * `given` are the people whose answers are recorded.
 */
export function answerRefusal(
  queue: QueueSource,
  facts: ApprovalFacts,
  person: Approver,
  { approves, given }: { readonly approves: boolean; readonly given: readonly Approver[] },
): AnswerRefusal | undefined {
  const excluded = exclusion(queue, facts, person.subject);
  if (excluded !== undefined) return { kind: 'excluded', message: excluded };
  if (given.some(({ subject }) => subject === person.subject))
    return { kind: 'double', message: 'you have answered already' };
  const authority = authorityOf(queue, facts, person);
  if (!slotsOf(queue, facts).some((slot) => fits(slot, authority.groups)))
    return { kind: 'stranger', message: 'you are in no group that decides here' };
  const answered = new Set(given.flatMap((other) => [other.subject, ...authorityOf(queue, facts, other).givers]));
  if (answered.has(person.subject)) return { kind: 'double', message: 'somebody has answered for you already' };
  if (authority.givers.some((giver) => answered.has(giver)))
    return { kind: 'double', message: 'whoever you answer for has answered already' };
  const windows = queue.windows ?? [];
  if (approves && windows.length > 0 && !windows.some((hours) => isInWindow(hours, facts.nowMs)))
    return { kind: 'hours', message: 'approvals are given in the hours of this queue only' };
  return undefined;
}

/** For whom this person's answer counts; empty when for himself. */
export const answersFor = (queue: QueueSource, facts: ApprovalFacts, person: Approver): readonly string[] =>
  authorityOf(queue, facts, person).givers;

/** Gives a slot to each person, so that as many slots as possible are filled; each person fills at most one. */
function match(
  slots: readonly { groups: readonly string[] }[],
  people: readonly ReadonlySet<string>[],
): (number | undefined)[] {
  const taken: (number | undefined)[] = slots.map(() => undefined);
  const place = (person: number, seen: Set<number>): boolean => {
    for (const [at, slot] of slots.entries()) {
      if (seen.has(at) || !fits(slot, people[person] ?? new Set())) continue;
      seen.add(at);
      const holder = taken[at];
      if (holder === undefined || place(holder, seen)) {
        taken[at] = person;
        return true;
      }
    }
    return false;
  };
  for (const person of people.keys()) place(person, new Set());
  return taken;
}

/**
 * Where the approvals of a call stand. Everybody is judged as the directory has him now, so that whoever has lost his group,
 * or became the requester's, does not count any more.
 */
export function standingOf(queue: QueueSource, facts: ApprovalFacts, given: readonly Approver[]): Standing {
  const counting: Approver[] = [];
  for (const person of given)
    if (answerRefusal({ ...queue, windows: [] }, facts, person, { approves: true, given: counting }) === undefined)
      counting.push(person);
  const slots = slotsOf(queue, facts);
  const taken = match(
    slots,
    counting.map((person) => authorityOf(queue, facts, person).groups),
  );
  const open = slots.filter((_slot, at) => taken[at] === undefined).map(({ group }) => group);
  const names = [...new Set(open)];
  return {
    satisfied: open.length === 0,
    missing: names.map((group) => ({ group, count: open.filter((name) => name === group).length })),
    counted: taken.flatMap((person) => (person === undefined ? [] : [counting[person]?.subject ?? ''])),
  };
}
