import { Beat, createIdentity, EnvelopeKind, openIdentity, signEnvelope, subjects } from '@countersign/protocol';
import { expect, test } from 'vitest';
import { BeatWatch } from './beat-watch.ts';

const audit = await openIdentity(await createIdentity('audit', 'audit'));
const NOW = 1_800_000_000_000;

function beat(atMs: number, freezeEpoch: bigint, frozenScopes: string[] = []): Uint8Array {
  const body = Beat.encode(Beat.fromPartial({ atMs: BigInt(atMs), freezeEpoch, frozenScopes })).finish();
  return signEnvelope(audit, { kind: EnvelopeKind.BEAT, subject: subjects.beat(), body, nowMs: atMs });
}

function watch() {
  const beats = new BeatWatch(
    (key) => key === audit.publicKey,
    { now: () => NOW },
    () => '',
  );
  beats.take(beat(NOW - 10, 4n, ['host:other']));
  return beats;
}

test('a freeze ahead of its beat holds at once, beside what is frozen already', () => {
  const beats = watch();
  beats.hold(5n, ['agent:a']);
  expect([beats.freezeEpoch(), beats.current()?.frozenScopes]).toEqual([5n, ['host:other', 'agent:a']]);
});

test('the beat of that epoch takes the place of what was held', () => {
  const beats = watch();
  beats.hold(5n, ['agent:a']);
  beats.take(beat(NOW - 5, 4n, []));
  expect(beats.current()?.frozenScopes).toEqual(['agent:a']);
  beats.take(beat(NOW - 3, 5n, ['session:s']));
  expect([beats.freezeEpoch(), beats.current()?.frozenScopes]).toEqual([5n, ['session:s']]);
});

test('a freeze message of an epoch that the beat has passed changes nothing', () => {
  const beats = watch();
  beats.hold(4n, ['all']);
  expect([beats.freezeEpoch(), beats.current()?.frozenScopes]).toEqual([4n, ['host:other']]);
});

test('a second freeze ahead of its beat adds to the first', () => {
  const beats = watch();
  beats.hold(6n, ['agent:a']);
  beats.hold(5n, ['agent:b']);
  expect([beats.freezeEpoch(), beats.current()?.frozenScopes]).toEqual([6n, ['host:other', 'agent:a', 'agent:b']]);
});

/** A host whose clock differs from audit's by so much, after one beat. */
function withOffset(offsetMs: number) {
  const beats = new BeatWatch(
    (key) => key === audit.publicKey,
    { now: () => NOW + offsetMs },
    () => '',
  );
  return { beats, taken: beats.take(beat(NOW, 1n)) };
}

test.each<[number, { taken: boolean; isOff: boolean }]>([
  [0, { taken: true, isOff: false }],
  [5_000, { taken: true, isOff: false }],
  [5_001, { taken: true, isOff: true }],
  [30_001, { taken: false, isOff: false }],
  [-5_000, { taken: true, isOff: false }],
  [-5_001, { taken: false, isOff: true }],
])(
  'a clock %d ms ahead of audit: a beat counts within the limits, and a clock beyond 5 s is said to be off',
  (offsetMs, expected) => {
    const { beats, taken } = withOffset(offsetMs);
    expect({ taken, isOff: beats.clockIsOff() }).toEqual(expected);
  },
);

test('a clock that was behind is right again with the next beat that counts, and no stranger says that it is off', async () => {
  const { beats } = withOffset(-5_001);
  beats.take(beat(NOW - 5_000, 1n));
  expect(beats.clockIsOff()).toBe(false);
  const stranger = await openIdentity(await createIdentity('audit', 'audit'));
  const body = Beat.encode(Beat.fromPartial({ atMs: BigInt(NOW + 60_000) })).finish();
  const message = { kind: EnvelopeKind.BEAT, subject: subjects.beat(), body, nowMs: NOW + 60_000 };
  beats.take(signEnvelope(stranger, message));
  expect(beats.clockIsOff()).toBe(false);
});
