import { Beat, EnvelopeKind, type Identity, signEnvelope, subjects } from '@countersign/protocol';
import type { NatsConnection } from '@countersign/service-kit';
import type { Sequencer } from './sequencer/sequencer.ts';

/** A function that publishes one signed beat. */
export function beatOf(
  nats: NatsConnection,
  identity: Identity,
  now: () => number,
  facts: () => Omit<Beat, 'atMs'>,
): () => void {
  let sequence = BigInt(now());
  const subject = subjects.beat();
  return () => {
    const beat: Beat = { ...facts(), atMs: BigInt(now()) };
    sequence += 1n;
    const body = Beat.encode(beat).finish();
    nats.publish(subject, signEnvelope(identity, { kind: EnvelopeKind.BEAT, subject, body, nowMs: now(), sequence }));
  };
}

/** What the beat says of frozen scopes and revoked orders. */
export function frozenFacts(
  sequencer: Sequencer,
): Omit<Beat, 'atMs' | 'checkpoint' | 'rosterVersion' | 'approversVersion'> {
  const freezes = [...sequencer.freezes.freezes.values()];
  return {
    freezeEpoch: sequencer.freezes.epoch,
    frozenScopes: freezes.map((freeze) => freeze.scope),
    stoppedScopes: freezes.filter((freeze) => freeze.stopRunning).map((freeze) => freeze.scope),
    revokedOrders: sequencer.revokedOrders(),
  };
}
