import type { Decision, PolicySet, QueueSource } from '../types.ts';
import { answerRefusal } from './judge-answers.ts';

const DEFAULT_QUEUE = 'default';
const MINUTE_MS = 60_000;

/** Somebody who would approve, and for whom the call is made. */
export interface WouldApprove {
  readonly person: string;
  readonly groups: readonly string[];
  readonly requester: string;
  /** How long the call has waited. */
  readonly waitedMinutes: number;
  readonly nowMs: number;
}

/** Name and rule of the queue in which a decision asks. */
export function queueOf(set: PolicySet, { review }: Decision): { name: string; queue: QueueSource | undefined } {
  const name = review?.queue ?? DEFAULT_QUEUE;
  const queue = set.queues !== undefined && Object.hasOwn(set.queues, name) ? set.queues[name] : undefined;
  return { name, queue };
}

/** Whether a person could approve a call, and why not; empty when nobody is asked. */
export function explainAnswer(set: PolicySet, decision: Decision, would: WouldApprove): string {
  if (decision.effect !== 'ask') return '';
  const { person, groups, requester, waitedMinutes, nowMs } = would;
  const { name, queue } = queueOf(set, decision);
  const facts = {
    requester,
    requesterDelegators: [],
    sessionOwner: requester,
    approvals: decision.review?.approvals ?? 0,
    waitingSinceMs: nowMs - waitedMinutes * MINUTE_MS,
    nowMs,
  };
  const approver = { subject: person, groups, delegators: [] };
  const refusal = answerRefusal(queue ?? {}, facts, approver, { approves: true, given: [] });
  return refusal ? `${person} may not approve in ${name}: ${refusal.message}` : `${person} may approve in ${name}`;
}
