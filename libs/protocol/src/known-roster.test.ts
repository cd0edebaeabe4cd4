import { expect, test } from 'vitest';
import { createIdentity, openIdentity } from './identity.ts';
import { KnownRoster } from './known-roster.ts';
import { type RosterMember, signRoster } from './roster.ts';

const NOW = 1_700_000_000_000;
const root = await openIdentity(await createIdentity('root', 'root'));
const [first, second] = [await createIdentity('gateway', 'gw'), await createIdentity('gateway', 'gw')];
const member = ({ publicKey, sealPublicKey }: typeof first, more: Partial<RosterMember> = {}): RosterMember => ({
  ...{ role: 'gateway', id: 'gw', signKey: publicKey, sealKey: sealPublicKey },
  ...more,
});
const sign = (version: number, ...members: RosterMember[]) => signRoster(root, { version, members }, NOW);

function known(signed: Uint8Array, at = { nowMs: NOW }) {
  const kept: Uint8Array[] = [];
  const now = () => at.nowMs;
  const roster = new KnownRoster(signed, { rootKey: root.publicKey, now, keep: (bytes) => kept.push(bytes) });
  const counts = () => [first, second].map(({ publicKey }) => roster.isKey('gateway', publicKey));
  return { roster, kept, counts };
}

test('during an overlap both keys count and the new one is named; after it only the new one', () => {
  const at = { nowMs: NOW };
  const { roster, counts } = known(sign(1, member(first, { untilMs: NOW + 10 }), member(second)), at);
  expect([counts(), roster.key('gateway').signKey]).toEqual([[true, true], second.publicKey]);
  at.nowMs = NOW + 10;
  expect(counts()).toEqual([false, true]);
});

test('a revoked key does not count, whatever its overlap', () => {
  expect(known(sign(1, member(first, { revoked: true, untilMs: NOW + 10 }), member(second))).counts()).toEqual([
    false,
    true,
  ]);
});

test('a key counts for its own role only', () => {
  expect(known(sign(1, member(first))).roster.isKey('audit', first.publicKey)).toBe(false);
});

test('a roster never goes back, and only the root makes one', async () => {
  const revoking = sign(2, member(first, { revoked: true }), member(second));
  const { roster, kept, counts } = known(sign(1, member(first)));
  const stranger = await openIdentity(await createIdentity('root', 'root'));
  expect(roster.take(signRoster(stranger, { version: 9, members: [member(first)] }, NOW))).toBe(false);
  expect(roster.take(revoking)).toBe(true);
  expect(kept).toEqual([revoking]);
  for (const bytes of [sign(1, member(first)), sign(2, member(first)), new Uint8Array([1])])
    expect(roster.take(bytes)).toBe(false);
  expect([counts(), kept.length]).toEqual([[false, true], 1]);
});

test('a roster of another root is no start', async () => {
  const stranger = await openIdentity(await createIdentity('root', 'root'));
  expect(() => known(signRoster(stranger, { version: 1, members: [member(first)] }, NOW))).toThrow(/refused/);
});
