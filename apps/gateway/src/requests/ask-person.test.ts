import { expect, test } from 'vitest';
import { beyondLimits } from './ask-person.ts';

const NOW = 1_700_000_000_000;
const made = (count: number, agent: string, state: 'waiting' | 'cancelled', ageMs = 0) =>
  Array.from({ length: count }, () => ({ agent, state, at_ms: NOW - ageMs }));

test.each([
  ['19 that wait', made(19, 'one', 'waiting'), undefined],
  ['20 that wait', made(20, 'one', 'waiting'), /20 requests of this agent wait already/],
  ['20 that wait since long', made(20, 'one', 'waiting', 3_599_999_999), /wait already/],
  ['20 of another agent', made(20, 'two', 'waiting'), undefined],
  ['199 that ended', made(199, 'one', 'cancelled'), undefined],
  ['200 that ended', made(200, 'one', 'cancelled', 3_599_999), /200 requests within an hour/],
  ['200 that ended before this hour', made(200, 'one', 'cancelled', 3_600_000), undefined],
] as const)('an agent with %s asks for no more than its limits', (_, requests, expected) => {
  const found = beyondLimits(requests, 'one', NOW);
  if (expected)
    expect(found).toMatchObject({ code: 'countersign.gateway.rate_limited', message: expect.stringMatching(expected) });
  else expect(found).toBeUndefined();
});
