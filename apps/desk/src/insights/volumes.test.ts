import { expect, test } from 'vitest';
import { PERIODS, type Period, stepsOf } from './period.ts';
import { volumesOf } from './volumes.ts';

const NOW = Date.UTC(2026, 2, 4, 13, 45);

test.each(Object.keys(PERIODS) as Period[])(
  'the steps of a %s are even, in order, and the newest holds now',
  (period) => {
    const { stepMinutes, steps } = PERIODS[period];
    const found = stepsOf(period, NOW);
    expect([found.length, new Set(found.map((ms) => ms % (stepMinutes * 60_000)))]).toEqual([steps, new Set([0])]);
    expect(found.slice(1).map((ms, at) => ms - (found[at] ?? 0))).toEqual(Array(steps - 1).fill(stepMinutes * 60_000));
    expect((found.at(-1) ?? 0) <= NOW && NOW < (found.at(-1) ?? 0) + stepMinutes * 60_000).toBe(true);
  },
);

test('every decision stands in its step under its end, and no other', () => {
  const row = (from_ms: number, effect: string, decided_by: string, calls: number) => ({
    from_ms,
    effect,
    decided_by,
    calls,
  });
  const rows = [
    row(10, 'allow', 'mode', 3),
    row(10, 'allow', 'grant', 4),
    row(10, 'allow', 'human', 5),
    row(20, 'deny', 'rule', 1),
    row(20, 'deny', 'human', 2),
    row(20, 'expired', '', 6),
    row(99, 'deny', 'human', 7),
  ];
  expect(volumesOf(rows, [10, 20, 30])).toEqual([
    { fromMs: 10, allowedByPolicy: 7, allowedByPeople: 5, deniedByPolicy: 0, deniedByPeople: 0, expired: 0 },
    { fromMs: 20, allowedByPolicy: 0, allowedByPeople: 0, deniedByPolicy: 1, deniedByPeople: 2, expired: 6 },
    { fromMs: 30, allowedByPolicy: 0, allowedByPeople: 0, deniedByPolicy: 0, deniedByPeople: 0, expired: 0 },
  ]);
});
