import type { Clock } from '@countersign/kernel';
import { Beat, EnvelopeKind, openEnvelope, subjects } from '@countersign/protocol';
import { type BeatFacts, MAX_BEAT_AGE_MS } from './verify-order.ts';

/** The local clock may be ahead of audit's by this much. */
const MAX_CLOCK_OFFSET_MS = 5_000;

/** Keeps the newest beat of audit. An older one, whoever sends it again, changes nothing. */
export class BeatWatch {
  private readonly auditKey: string;
  private readonly clock: Clock;
  private newest: BeatFacts | undefined;
  private offsetMs = 0;

  constructor(auditKey: string, clock: Clock) {
    this.auditKey = auditKey;
    this.clock = clock;
  }

  /** Takes a message of the beat subject; returns false when it is not a newer beat of audit. */
  take(bytes: Uint8Array): boolean {
    const nowMs = this.clock.now();
    const opened = openEnvelope(bytes, {
      kind: EnvelopeKind.BEAT,
      subject: subjects.beat(),
      issuer: this.auditKey,
      nowMs,
      maxAgeMs: 3 * MAX_BEAT_AGE_MS,
    });
    if (!opened.ok) return false;
    let beat: Beat;
    try {
      beat = Beat.decode(opened.value.body);
    } catch {
      return false;
    }
    const atMs = Math.min(Number(beat.atMs), opened.value.issuedAtMs);
    if (this.newest && atMs <= this.newest.atMs) return false;
    this.newest = { atMs, frozenScopes: beat.frozenScopes, revokedOrders: beat.revokedOrders };
    this.offsetMs = nowMs - atMs;
    return true;
  }

  current(): BeatFacts | undefined {
    return this.newest;
  }

  /** True when the newest beat came with a time too far from the local one. */
  clockIsOff(): boolean {
    return this.offsetMs > MAX_CLOCK_OFFSET_MS;
  }
}
