import { expect, test } from 'vitest';
import { killRun } from './testing/kill-run.ts';

test('kills of random processes for most of a minute lose nothing, repeat nothing and leave a log that verifies', async () => {
  const { kills, calls, wrong } = await killRun({
    kills: 1_000,
    durationMs: 45_000,
    pauseMs: [600, 2_400],
    random: Math.random,
  });
  expect(wrong).toEqual([]);
  expect(Object.values(kills).reduce((sum, count) => sum + count, 0)).toBeGreaterThan(10);
  expect(calls.done ?? 0).toBeGreaterThan(0);
}, 420_000);
