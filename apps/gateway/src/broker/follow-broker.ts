import { Beat, EnvelopeKind, openEnvelope, subjects } from '@countersign/protocol';
import type { NatsConnection } from '@countersign/service-kit';
import type { FreezeWatch } from '../freeze/freeze-watch.ts';
import type { Hosts } from './hosts.ts';

const BEAT_VALID_MS = 30_000;

/** Follows heartbeats and audit's beats. */
export function followBroker(
  connection: NatsConnection,
  hosts: Hosts,
  freeze: FreezeWatch,
  { isAudit, now }: { isAudit: (key: string) => boolean; now: () => number },
): void {
  let newest = -1n;
  connection.subscribe('cs.v1.heartbeat.*', {
    callback: (error, message) => {
      if (!error) hosts.take(message.subject, message.data, now());
    },
  });
  connection.subscribe(subjects.beat(), {
    callback: (error, message) => {
      if (error) return;
      const opened = openEnvelope(message.data, {
        kind: EnvelopeKind.BEAT,
        subject: message.subject,
        issuer: isAudit,
        nowMs: now(),
        maxAgeMs: BEAT_VALID_MS,
      });
      if (!opened.ok || opened.value.sequence <= newest) return;
      newest = opened.value.sequence;
      const beat = Beat.decode(opened.value.body);
      freeze.take(beat.freezeEpoch, beat.frozenScopes);
    },
  });
}
