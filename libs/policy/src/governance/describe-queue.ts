import type { QueueSource, TimeWindow } from '../types.ts';

const people = (count: number): string => (count === 1 ? 'one person' : `${count} different people`);

const windowText = ({ days, from, to, timeZone }: TimeWindow): string =>
  `approvals only ${from} to ${to} ${timeZone}${days ? ` on ${days.join(', ')}` : ''}`;

/** What a queue demands, one line a rule. */
export function describeQueue(name: string, queue: QueueSource | undefined, approvals = 0): string[] {
  const needed = Math.max(1, queue?.approvals ?? 0, approvals);
  const quorum = (queue?.quorum ?? []).map(({ group, count }) => `${people(count)} of \`${group}\``);
  const named = (queue?.quorum ?? []).reduce((sum, { count }) => sum + count, 0);
  const rest =
    needed > named ? [`${people(needed - named)} of ${queue?.approvers?.join(', ') ?? 'all approvers'}`] : [];
  return [
    `queue ${name}: ${[...quorum, ...rest].join(' and ')}`,
    'the requester and whoever he acts for never count; each person counts once',
    ...(queue?.separationOfDuties ? ['the owner of the session never counts'] : []),
    ...(queue?.windows ?? []).map(windowText),
    ...(queue?.escalation
      ? [`after ${queue.escalation.afterMinutes} minutes ${queue.escalation.approvers.join(', ')} may decide too`]
      : []),
    ...(queue?.slaMinutes === undefined ? [] : [`an answer is due within ${queue.slaMinutes} minutes`]),
    ...(queue?.delegation ? ['approvers may let others decide for them'] : []),
    ...(queue?.breakGlass
      ? [`${queue.breakGlass.groups.join(', ')} may break glass; reviewed within ${queue.breakGlass.reviewHours} hours`]
      : []),
    ...(queue?.passkey ? ['each approval is signed with a passkey'] : []),
  ];
}
