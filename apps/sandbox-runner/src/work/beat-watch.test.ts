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
