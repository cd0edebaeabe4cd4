import type { Clock } from '@countersign/kernel';
import { EnvelopeKind, Heartbeat, type Identity, signEnvelope, subjects } from '@countersign/protocol';
import type { NatsConnection } from '@countersign/service-kit';
import type { BrokerLink } from './work/broker-link.ts';
import type { SelfTest } from './work/host-tools.ts';

const HEARTBEAT_MS = 3_000;

export type HeartbeatOptions = {
  readonly connection: NatsConnection;
  readonly link: BrokerLink;
  readonly identity: Identity;
  readonly clock: Clock;
  readonly host: string;
  readonly journal: { readonly id: string; readonly createdAtMs: number; readonly written: () => number };
  readonly home: string;
  readonly version: string;
  readonly running: () => number;
  readonly selfTest: () => SelfTest;
  /** Newest freeze epoch that this host keeps to; reporting it is the host's confirmation. */
  readonly freezeEpoch: () => bigint;
  /** Order classes that need passkeys; -1 without a pins file. */
  readonly pinnedClasses: () => number;
  /** Version of the roster that this host keeps to. */
  readonly rosterVersion: () => number;
  /** Why nothing may start; empty when the host is ready. */
  readonly unready: () => string;
};

/** Publishes the signed state of the host at once and every three seconds; returns its end. */
export function startHeartbeat(options: HeartbeatOptions): () => void {
  const { connection, link, identity, clock, host } = options;
  const subject = subjects.heartbeat(host);
  let sequence = BigInt(clock.now()) * 1000n;
  const beat = () => {
    if (!link.connected) return;
    const reason = options.unready();
    const nowMs = clock.now();
    const body = Heartbeat.encode({
      host,
      platform: `${process.platform}-${process.arch}`,
      version: options.version,
      backends: [...options.selfTest().backends],
      ready: reason === '',
      reason,
      running: options.running(),
      journalId: options.journal.id,
      journalCreatedAtMs: BigInt(options.journal.createdAtMs),
      journalEntries: BigInt(options.journal.written()),
      home: options.home,
      atMs: BigInt(nowMs),
      freezeEpoch: options.freezeEpoch(),
      pinnedClasses: options.pinnedClasses(),
      rosterVersion: options.rosterVersion(),
    }).finish();
    sequence += 1n;
    connection.publish(
      subject,
      signEnvelope(identity, { kind: EnvelopeKind.HEARTBEAT, subject, body, nowMs, sequence }),
    );
  };
  beat();
  const timer = setInterval(beat, HEARTBEAT_MS);
  return () => clearInterval(timer);
}
