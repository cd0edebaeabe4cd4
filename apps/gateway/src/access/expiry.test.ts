import { expect, test } from 'vitest';
import { CoolDown } from './cool-down.ts';
import { isFresh } from './fresh.ts';
import { SignIn } from './sign-in.ts';

const NOW = 1_800_000_000_000;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

function signInAt() {
  const clock = { nowMs: NOW };
  return { clock, signIn: new SignIn(() => clock.nowMs) };
}

test.each<[string, number, boolean]>([
  ['at once', 0, true],
  ['a millisecond before ten minutes', 10 * MINUTE - 1, true],
  ['after ten minutes', 10 * MINUTE, false],
  ['when the clock was corrected by a minute', -MINUTE, true],
  ['when the clock was set back by more', -MINUTE - 1, false],
])('a login link %s', (_title, afterMs, works) => {
  const { clock, signIn } = signInAt();
  const link = signIn.newLink('ann');
  clock.nowMs += afterMs;
  expect(signIn.redeem(link) !== undefined).toBe(works);
  clock.nowMs = NOW;
  expect(signIn.redeem(link)).toBe(undefined);
});

test.each<[string, number, boolean]>([
  ['a millisecond before twelve hours', 12 * HOUR - 1, true],
  ['after twelve hours', 12 * HOUR, false],
  ['when the clock was corrected by a minute', -MINUTE, true],
  ['when the clock was set back by more', -MINUTE - 1, false],
])('a session %s', (_title, afterMs, holds) => {
  const { clock, signIn } = signInAt();
  const cookie = signIn.open({ subject: 'ann', method: 'link', provenMs: NOW });
  clock.nowMs += afterMs;
  expect(signIn.session(cookie) !== undefined).toBe(holds);
});

test.each<[string, number, boolean]>([
  ['of five minutes ago', -5 * MINUTE, true],
  ['of a millisecond more', -5 * MINUTE - 1, false],
  ["a minute ahead, as the provider's clock may be", MINUTE, true],
  ['further ahead', MINUTE + 1, false],
])('a sign-in %s', (_title, provenMs, fresh) => {
  expect(isFresh(NOW + provenMs, NOW)).toBe(fresh);
});

test('an address that sent five wrong credentials waits for thirty seconds, to the second', () => {
  const clock = { nowMs: NOW };
  const cool = new CoolDown({ exemptLoopback: () => false, now: () => clock.nowMs });
  for (let at = 0; at < 5; at += 1) cool.failed('192.0.2.1');
  expect([cool.waitSeconds('192.0.2.1'), cool.waitSeconds('192.0.2.2')]).toEqual([30, 0]);
  clock.nowMs += 29_999;
  expect(cool.waitSeconds('192.0.2.1')).toBe(1);
  clock.nowMs += 1;
  expect(cool.waitSeconds('192.0.2.1')).toBe(0);
});
