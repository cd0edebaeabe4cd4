import { describe, expect, test } from 'vitest';
import type { QueueSource } from '../types.ts';
import { type ApprovalFacts, type Approver, answerRefusal, standingOf } from './judge-answers.ts';
import { queueProblems } from './queue-problems.ts';

/** Tuesday 2025-06-03 10:00 UTC. */
const NOW = Date.UTC(2025, 5, 3, 10);
const FACTS: ApprovalFacts = {
  requester: 'rita',
  requesterDelegators: ['rolf'],
  sessionOwner: 'olga',
  approvals: 0,
  waitingSinceMs: NOW - 60_000,
  nowMs: NOW,
};
const person = (subject: string, groups: string[], delegators: Approver['delegators'] = []): Approver => ({
  ...{ subject, groups, delegators },
});
const ann = person('ann', ['dev', 'sec']);
const bob = person('bob', ['dev']);
const cyd = person('cyd', ['sec']);
const dan = person('dan', ['dev']);
const eva = person('eva', [], [{ subject: 'cyd', groups: ['sec'] }]);
const lead = person('lead', ['leads']);

/** Every kind of queue, with answers that satisfy it in this order. */
const KINDS: readonly [string, QueueSource, Approver[]][] = [
  ['one approver of a group', { approvers: ['dev'] }, [bob]],
  ['two of a group', { approvers: ['dev'], approvals: 2 }, [ann, bob]],
  ['quorum of one group', { quorum: [{ group: 'dev', count: 2 }] }, [bob, dan]],
  [
    'quorum over two groups',
    {
      quorum: [
        { group: 'dev', count: 1 },
        { group: 'sec', count: 1 },
      ],
    },
    [bob, cyd],
  ],
  [
    'quorum and a further approver',
    { quorum: [{ group: 'sec', count: 1 }], approvers: ['dev'], approvals: 2 },
    [cyd, bob],
  ],
  ['separation of duties', { approvers: ['dev'], separationOfDuties: true }, [bob]],
  ['hours', { approvers: ['dev'], windows: [{ timeZone: 'UTC', from: '09:00', to: '17:00' }] }, [bob]],
  ['escalation', { approvers: ['dev'], escalation: { afterMinutes: 1, approvers: ['leads'] } }, [lead]],
  ['delegation', { approvers: ['sec'], delegation: true }, [eva]],
  ['passkey', { approvers: ['dev'], passkey: true }, [bob]],
];

const refusal = (queue: QueueSource, who: Approver, given: Approver[] = [], approves = true, facts = FACTS) =>
  answerRefusal(queue, facts, who, { approves, given })?.message;

describe.each(KINDS)('a queue with %s', (_name, queue, answers) => {
  const groups = [...new Set([...(queue.approvers ?? []), ...(queue.quorum ?? []).map(({ group }) => group)])];

  test('is satisfied by these answers, and by none fewer', () => {
    const given: Approver[] = [];
    for (const answer of answers) {
      expect(standingOf(queue, FACTS, given).satisfied).toBe(false);
      expect(refusal(queue, answer, given)).toBe(undefined);
      given.push(answer);
    }
    expect(standingOf(queue, FACTS, given)).toMatchObject({ satisfied: true, missing: [] });
  });

  test('refuses a stranger, the requester, his delegator, and the same person again, for approval and denial', () => {
    for (const approves of [true, false]) {
      expect(refusal(queue, person('zoe', ['cooks']), [], approves)).toMatch(/no group/);
      expect(refusal(queue, person('rita', groups), [], approves)).toMatch(/made for himself/);
      expect(refusal(queue, person('rolf', groups), [], approves)).toMatch(/requester acts for you/);
      const [first] = answers;
      if (first) expect(refusal(queue, first, [first], approves)).toMatch(/answered already/);
    }
  });

  test('does not count those who may not answer, even when they are on record', () => {
    const wrong = [person('zoe', ['cooks']), person('rita', groups), person('rolf', groups)];
    expect(standingOf(queue, FACTS, wrong)).toMatchObject({ satisfied: false, counted: [] });
    const doubled = answers.slice(0, 1).flatMap((answer) => [answer, answer, answer]);
    expect(standingOf(queue, FACTS, doubled).satisfied).toBe(answers.length === 1);
  });

  test('does not count who has lost his groups when the last answer lands', () => {
    const lost = answers.map((answer, at) => (at === 0 ? person(answer.subject, []) : answer));
    expect(standingOf(queue, FACTS, lost).satisfied).toBe(false);
  });
});

test('a person in two groups fills one place, the one that lets the others count', () => {
  const queue: QueueSource = {
    quorum: [
      { group: 'dev', count: 1 },
      { group: 'sec', count: 1 },
    ],
  };
  expect(standingOf(queue, FACTS, [ann])).toMatchObject({ satisfied: false });
  expect(standingOf(queue, FACTS, [ann, bob])).toMatchObject({ satisfied: true });
  expect(standingOf(queue, FACTS, [ann, cyd])).toMatchObject({ satisfied: true });
});

test('a rule that demands more people than its queue is kept', () => {
  expect(standingOf({}, { ...FACTS, approvals: 2 }, [ann])).toMatchObject({ missing: [{ group: '', count: 1 }] });
});

test('the owner of the session decides only where the queue lets him', () => {
  const olga = person('olga', ['dev']);
  expect(refusal({ approvers: ['dev'] }, olga)).toBe(undefined);
  expect(refusal({ approvers: ['dev'], separationOfDuties: true }, olga)).toMatch(/owner of the session/);
});

describe('delegation', () => {
  const queue: QueueSource = { approvers: ['sec'], approvals: 2, delegation: true };

  test('delegator and delegate are one authority, in either order', () => {
    expect(refusal(queue, cyd, [eva])).toMatch(/answered for you/);
    expect(refusal(queue, eva, [cyd])).toMatch(/answered already/);
    expect(standingOf(queue, FACTS, [cyd, eva]).satisfied).toBe(false);
    expect(standingOf(queue, FACTS, [eva, ann]).satisfied).toBe(true);
  });

  test('two delegates of one person count once', () => {
    const other = person('fay', [], [{ subject: 'cyd', groups: ['sec'] }]);
    expect(refusal(queue, other, [eva])).toMatch(/answered already/);
  });

  test('the requester lends nothing, and nothing is lent where the queue does not allow it', () => {
    const lent = person('gil', [], [{ subject: 'rita', groups: ['sec'] }]);
    expect(refusal(queue, lent)).toMatch(/no group/);
    expect(refusal({ approvers: ['sec'] }, eva)).toMatch(/no group/);
  });
});

describe('hours', () => {
  const at = (from: string, to: string, days?: string[], nowMs = NOW, timeZone = 'UTC') => {
    const queue: QueueSource = { approvers: ['dev'], windows: [{ timeZone, from, to, ...(days ? { days } : {}) }] };
    return refusal(queue, bob, [], true, { ...FACTS, nowMs }) === undefined;
  };

  test.each<[string, boolean, boolean]>([
    ['inside', true, at('09:00', '11:00')],
    ['at the first minute', true, at('10:00', '11:00')],
    ['at the end', false, at('09:00', '10:00')],
    ['on another day', false, at('09:00', '11:00', ['wed'])],
    ['in another zone', true, at('19:00', '20:00', undefined, NOW, 'Asia/Tokyo')],
    ['before midnight of a night window', true, at('22:00', '06:00', ['tue'], NOW + 13 * 3_600_000)],
    ['after midnight, on the day it began', true, at('22:00', '06:00', ['tue'], NOW + 18 * 3_600_000)],
    ['after midnight, on a day it did not begin', false, at('22:00', '06:00', ['wed'], NOW + 18 * 3_600_000)],
  ])('%s: %s', (_name, expected, found) => {
    expect(found).toBe(expected);
  });

  test('a denial is never held back', () => {
    const queue: QueueSource = { approvers: ['dev'], windows: [{ timeZone: 'UTC', from: '00:00', to: '00:01' }] };
    expect([refusal(queue, bob), refusal(queue, bob, [], false)]).toEqual([expect.stringMatching(/hours/), undefined]);
  });
});

test('before its delay an escalation lets nobody decide', () => {
  const queue: QueueSource = { approvers: ['dev'], escalation: { afterMinutes: 2, approvers: ['leads'] } };
  expect(refusal(queue, lead)).toMatch(/no group/);
  expect(refusal(queue, lead, [], true, { ...FACTS, nowMs: NOW + 60_000 })).toBe(undefined);
});

test.each<[string, object]>([
  ['an unknown field', { q: { aprovals: 2 } }],
  ['no people', { q: { quorum: [{ group: 'dev', count: 0 }] } }],
  [
    'a group twice',
    {
      q: {
        quorum: [
          { group: 'dev', count: 1 },
          { group: 'dev', count: 1 },
        ],
      },
    },
  ],
  [
    'more people than are allowed',
    {
      q: {
        quorum: [
          { group: 'a', count: 11 },
          { group: 'b', count: 11 },
        ],
      },
    },
  ],
  ['an unknown zone', { q: { windows: [{ timeZone: 'Mars/Base', from: '09:00', to: '10:00' }] } }],
  ['a time that is none', { q: { windows: [{ timeZone: 'UTC', from: '9', to: '24:00' }] } }],
  ['an empty window', { q: { windows: [{ timeZone: 'UTC', from: '09:00', to: '09:00' }] } }],
  ['delegation without groups', { q: { delegation: true } }],
  ['an escalation without a delay', { q: { escalation: { approvers: ['a'] } } }],
  ['a queue that is no map', { q: 3 }],
])('a queue with %s is refused at load', (_name, queues) => {
  expect(queueProblems(queues).length).toBeGreaterThan(0);
});
