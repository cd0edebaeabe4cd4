import { expect, test } from 'vitest';
import { createIdentity, openIdentity } from './identity.ts';
import { endsProblem } from './overlap.ts';
import { openRoster, signRoster } from './roster.ts';

const NOW = 1_700_000_000_000;
const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

test('an overlap begins when the root signs, however long the draft lay there; an end that was fixed stays', async () => {
  const root = await openIdentity(await createIdentity('root', 'root'));
  const { publicKey: signKey, sealPublicKey: sealKey } = await createIdentity('audit', 'audit');
  const line = { role: 'audit', id: 'audit', signKey, sealKey } as const;
  const draft = {
    version: 2,
    members: [{ ...line, overlapMinutes: 60 }, { ...line, overlapMinutes: 60, untilMs: NOW }, line],
  };
  const opened = openRoster(signRoster(root, draft, NOW + DAY_MS), root.publicKey);
  expect(opened.ok && opened.value.members).toEqual([
    { ...line, untilMs: NOW + DAY_MS + 60 * MINUTE_MS },
    { ...line, untilMs: NOW },
    line,
  ]);
});

test.each<[string, number | undefined, RegExp | undefined]>([
  ['in an hour', NOW + 60 * MINUTE_MS, undefined],
  ['none', undefined, undefined],
  ['the one of before', NOW - DAY_MS, undefined],
  ['now', NOW, /ended before this was published; sign the draft again/],
  ['yesterday', NOW - DAY_MS - 1, /ended before/],
  ['in a week', NOW + 7 * DAY_MS, undefined],
  ['in a month', NOW + 30 * DAY_MS, /longer than a week/],
])('a list whose key gets the end `%s` is judged when it is published', (_title, untilMs, problem) => {
  const before = new Map([
    ['key', untilMs === NOW - DAY_MS ? untilMs : undefined],
    ['other', undefined],
  ]);
  const found = endsProblem(before, [{ key: 'key', untilMs }, { key: 'other' }], NOW);
  if (problem) expect(found).toMatch(problem);
  else expect(found).toBe(undefined);
});
