import { FaultError } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';

/** Clocks may differ by this much, as those of hosts may; architecture.md. */
export const MAX_OFFSET_MS = 5_000;

export type ClockWatchOptions = {
  /** This gateway's clock. */
  readonly now: () => number;
  /** A clock that nobody sets, milliseconds. */
  readonly elapsedMs?: (() => number) | undefined;
  /** Milliseconds that passed for the database too, where a test moves time by hand. */
  readonly passedMs?: (() => number) | undefined;
};

/**
 * Compares this gateway's clock with the database's, the one that all gateways share. Between two readings the database's
 * time goes on with a clock that nobody sets, so that a step of this gateway's clock shows at once. Before the first
 * reading the clock counts as off.
 */
export class ClockWatch {
  readonly #now: () => number;
  readonly #elapsedMs: () => number;
  readonly #passedMs: () => number;
  /** `doubtMs`: how far the reading may be wrong, because it was on its way. */
  #read: { readonly databaseMs: number; readonly atMs: number; readonly doubtMs: number } | undefined;

  constructor({ now, elapsedMs = () => performance.now(), passedMs = () => 0 }: ClockWatchOptions) {
    this.#now = now;
    this.#elapsedMs = elapsedMs;
    this.#passedMs = passedMs;
  }

  /** Reads the database's clock. A reading that took too long to tell anything changes nothing. Rejects as `readMs` does. */
  async read(readMs: () => Promise<number>): Promise<void> {
    const beganMs = this.#elapsedMs();
    const databaseMs = await readMs();
    const atMs = this.#elapsedMs();
    const doubtMs = (atMs - beganMs) / 2;
    if (doubtMs <= MAX_OFFSET_MS) this.#read = { databaseMs: databaseMs + doubtMs, atMs, doubtMs };
  }

  /** Milliseconds by which this gateway's clock is ahead of the database's; undefined before the first reading. */
  aheadMs(): number | undefined {
    if (!this.#read) return undefined;
    const { databaseMs, atMs } = this.#read;
    return this.#now() - (databaseMs + this.#elapsedMs() - atMs + this.#passedMs());
  }

  /** False when the clock is off for certain by more than it may be, or was never compared. */
  isRight(): boolean {
    const aheadMs = this.aheadMs();
    return aheadMs !== undefined && Math.abs(aheadMs) - (this.#read?.doubtMs ?? 0) <= MAX_OFFSET_MS;
  }

  /** What to say while the clock is off. */
  problem(): { readonly code: typeof ERROR_CODES.clockOff; readonly message: string } {
    const seconds = Math.round((this.aheadMs() ?? 0) / 1_000);
    const by = seconds < 0 ? `${-seconds} s behind` : `${seconds} s ahead of`;
    return {
      code: ERROR_CODES.clockOff,
      message: `the gateway's clock is ${by} the database's; set the clocks, it goes on by itself then`,
    };
  }

  fault(): FaultError {
    const { code, message } = this.problem();
    return new FaultError(message, { code, retryable: true });
  }
}
