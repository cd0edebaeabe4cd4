import { expect, test } from 'vitest';
import type { Decision, PolicySet, QueueSource } from '../types.ts';
import { explainAnswer, type WouldApprove } from './explain-answer.ts';

/** Wednesday, 12:00 UTC. */
const NOON = Date.UTC(2026, 0, 7, 12);
const WORKING: QueueSource = {
  approvers: ['dev'],
  windows: [{ days: ['mon', 'tue', 'wed', 'thu', 'fri'], from: '09:00', to: '17:00', timeZone: 'UTC' }],
  escalation: { afterMinutes: 30, approvers: ['leads'] },
};
const set = { queues: { pay: WORKING } } as unknown as PolicySet;
const asks = { effect: 'ask', review: { queue: 'pay' } } as unknown as Decision;
const ann: WouldApprove = { person: 'ann', groups: ['dev'], requester: 'rita', waitedMinutes: 0, nowMs: NOON };

test.each<[string, Partial<WouldApprove>, RegExp]>([
  ['a member of the group', {}, /^ann may approve in pay$/],
  ['the requester', { person: 'rita' }, /may not approve in pay: .*made for himself/],
  ['a stranger', { groups: ['ops'] }, /may not approve in pay: .*no group/],
  ['a group of the escalation before its delay', { groups: ['leads'], waitedMinutes: 29 }, /no group/],
  ['a group of the escalation after its delay', { groups: ['leads'], waitedMinutes: 30 }, /may approve/],
  ['anybody before the hours', { nowMs: Date.UTC(2026, 0, 7, 8, 59) }, /may not approve/],
  ['a member at the first minute of the hours', { nowMs: Date.UTC(2026, 0, 7, 9) }, /may approve/],
  ['anybody at the end of the hours', { nowMs: Date.UTC(2026, 0, 7, 17, 1) }, /may not approve/],
  ['anybody on another day', { nowMs: Date.UTC(2026, 0, 10, 12) }, /may not approve/],
])('%s is told whether he may approve, and why not', (_title, change, expected) => {
  expect(explainAnswer(set, asks, { ...ann, ...change })).toMatch(expected);
});

test('where nobody is asked nothing is said, and a queue without a rule is open', () => {
  expect(explainAnswer(set, { ...asks, effect: 'deny' }, ann)).toBe('');
  expect(explainAnswer({ ...set, queues: {} }, asks, ann)).toBe('ann may approve in pay');
});
