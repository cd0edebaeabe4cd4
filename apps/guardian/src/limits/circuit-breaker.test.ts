import { expect, test } from 'vitest';
import { CircuitBreaker } from './circuit-breaker.ts';

const OPEN_MS = 100;

/** A breaker that has just opened at time 0. */
function opened(): CircuitBreaker {
  const breaker = new CircuitBreaker({ breakerFaults: 2, breakerOpenMs: OPEN_MS });
  for (let at = 0; at < 2; at += 1) {
    breaker.admit(0);
    breaker.report('fault', 0);
  }
  return breaker;
}

test('after the faults nothing is admitted for the whole time, then one trial at a time', () => {
  const breaker = opened();
  expect([0, OPEN_MS - 1, OPEN_MS, OPEN_MS].map((nowMs) => breaker.admit(nowMs))).toEqual([false, false, true, false]);
});

test.each([
  ['answered', true],
  ['fault', false],
] as const)('a trial that ends as %s lets the next request go: %s', (outcome, next) => {
  const breaker = opened();
  breaker.admit(OPEN_MS);
  breaker.report(outcome, OPEN_MS);
  expect(breaker.admit(OPEN_MS + 1)).toBe(next);
});

test('a trial that says nothing about the provider is followed by another', () => {
  const breaker = opened();
  breaker.admit(OPEN_MS);
  breaker.report('neutral', OPEN_MS);
  expect([breaker.admit(OPEN_MS), breaker.admit(OPEN_MS)]).toEqual([true, false]);
});

test('an answer between faults starts the count again', () => {
  const breaker = new CircuitBreaker({ breakerFaults: 2, breakerOpenMs: OPEN_MS });
  for (const outcome of ['fault', 'answered', 'fault'] as const) breaker.report(outcome, 0);
  expect(breaker.admit(0)).toBe(true);
});
