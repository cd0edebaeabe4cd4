import { describe, expect, test } from 'vitest';
import { CALL_STATES, CALL_TRANSITIONS, isCallState, isSubjectToken, isTerminal, makeId } from './index.ts';

describe('call states', () => {
  test('every successor is a state of the table', () => {
    const successors = Object.values(CALL_TRANSITIONS).flat();
    expect(successors.filter((state) => !isCallState(state))).toEqual([]);
  });

  test('no state can be left for a state before it, so no call loops', () => {
    const backward = CALL_STATES.flatMap((from) => CALL_TRANSITIONS[from].map((to) => [from, to] as const)).filter(
      ([from, to]) => CALL_STATES.indexOf(to) <= CALL_STATES.indexOf(from) && !isTerminal(to),
    );
    expect(backward).toEqual([]);
  });

  test('a name inherited from Object is not a state', () => {
    expect(isCallState('constructor')).toBe(false);
  });
});

describe('identifiers', () => {
  const zeros = (size: number) => new Uint8Array(size);

  test('an identifier made later sorts later', () => {
    const made = [1, 255, 256, 1_796_000_000_000, 1_796_000_000_001].map((now) => makeId('call', now, zeros));
    expect(made.toSorted()).toEqual(made);
  });

  test('version and variant bits are those of UUIDv7', () => {
    expect(makeId('ord', 1_796_000_000_000, () => new Uint8Array(10).fill(255))).toMatch(
      /^ord_[0-9a-f]{12}7[0-9a-f]{3}b[0-9a-f]{15}$/,
    );
  });

  test.each(['', 'a.b', 'a*', '>', 'a b', 'é', 'x'.repeat(65)])('`%s` is refused as a subject token', (text) => {
    expect(isSubjectToken(text)).toBe(false);
  });
});
