import type { Clock } from '@countersign/kernel';
import { Beat, EnvelopeKind, openEnvelope, subjects } from '@countersign/protocol';
import { type BeatFacts, MAX_BEAT_AGE_MS } from './verify-order.ts';

/** The local clock may differ from audit's by this much. */
export const MAX_CLOCK_OFFSET_MS = 5_000;

/** Scopes that are held ahead of a beat; what is over this comes with the beat. */
const MAX_HELD_SCOPES = 10_000;

/** Keeps the newest beat of audit. An older one, whoever sends it again, changes nothing. */
export class BeatWatch {
  private readonly isAudit: (key: string) => boolean;
  private readonly clock: Clock;
  /** Why the log that the beats speak for is not proven; empty when it is. */
  private readonly unproven: () => string;
  private newest: BeatFacts | undefined;
  private note = '';
  private offsetMs = 0;
  private isBehind = false;
  private epoch = 0n;
  private held: { readonly epoch: bigint; readonly scopes: readonly string[] } | undefined;

  /**
   * @param isAudit true for a key of the audit service that counts now.
   * @param unproven why the log is not proven at this moment; empty when it is.
   */
  constructor(isAudit: (key: string) => boolean, clock: Clock, unproven: () => string) {
    this.unproven = unproven;
    this.isAudit = isAudit;
    this.clock = clock;
  }

  /** Takes a message of the beat subject; returns false when it is not a newer beat of audit. */
  take(bytes: Uint8Array): boolean {
    const nowMs = this.clock.now();
    const opened = openEnvelope(bytes, {
      kind: EnvelopeKind.BEAT,
      subject: subjects.beat(),
      issuer: this.isAudit,
      nowMs,
      maxAgeMs: 3 * MAX_BEAT_AGE_MS,
    });
    // Its signature is right and its time is ahead of ours: this clock is behind.
    if (!opened.ok && opened.error.code === 'from_the_future') this.isBehind = true;
    if (!opened.ok) return false;
    let beat: Beat;
    try {
      beat = Beat.decode(opened.value.body);
    } catch {
      return false;
    }
    const atMs = Math.min(Number(beat.atMs), opened.value.issuedAtMs);
    if (this.newest && atMs <= this.newest.atMs) return false;
    this.isBehind = false;
    this.newest = {
      atMs,
      frozenScopes: beat.frozenScopes,
      revokedOrders: beat.revokedOrders,
      stoppedScopes: beat.stoppedScopes,
      rosterVersion: beat.rosterVersion,
      approversVersion: beat.approversVersion,
    };
    this.note = beat.checkpoint;
    this.epoch = beat.freezeEpoch;
    this.offsetMs = nowMs - atMs;
    return true;
  }

  /** Freezes scopes ahead of the beat that says so. SECURITY: this only adds; it ends with a beat of that epoch or a later one. */
  hold(epoch: bigint, scopes: readonly string[]): void {
    const before = this.held && this.held.epoch > this.epoch ? this.held : { epoch: 0n, scopes: [] };
    if (epoch > this.epoch)
      this.held = {
        epoch: epoch > before.epoch ? epoch : before.epoch,
        scopes: [...new Set([...before.scopes, ...scopes])].slice(0, MAX_HELD_SCOPES),
      };
  }

  /** Newest freeze epoch that `current` keeps to. */
  freezeEpoch(): bigint {
    return this.held && this.held.epoch > this.epoch ? this.held.epoch : this.epoch;
  }

  current(): BeatFacts | undefined {
    if (!this.newest) return undefined;
    const newest = { ...this.newest, unproven: this.unproven() };
    if (!this.held || this.held.epoch <= this.epoch) return newest;
    return { ...newest, frozenScopes: [...newest.frozenScopes, ...this.held.scopes] };
  }

  /** Checkpoint of the newest beat, as it came. */
  checkpoint(): string {
    return this.note;
  }

  /** True when the newest beat came with a time too far from the local one, ahead or behind. */
  clockIsOff(): boolean {
    return this.isBehind || this.offsetMs > MAX_CLOCK_OFFSET_MS;
  }
}
