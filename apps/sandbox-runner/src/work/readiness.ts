import type { BeatWatch } from './beat-watch.ts';
import type { HostTools, SelfTest } from './host-tools.ts';

const RETRY_MS = 30_000;

export type ReadinessOptions = {
  readonly tools: HostTools;
  readonly beats: BeatWatch;
  readonly isJournalFull: () => boolean;
  /** The disk of the journal has room for what an order may add. */
  readonly hasRoom: () => boolean;
  /** Why the pins of this host keep everything from starting; empty when they do not. */
  readonly pins: () => string;
  /** Why the log is not to be trusted any more; empty while it is. */
  readonly log: () => string;
};

/** Knows why nothing may start on this host. A self-test that found something wrong is repeated every 30 s. */
export class Readiness {
  private readonly options: ReadinessOptions;
  private newest: SelfTest = { backends: [], reason: 'self-test has not run yet' };
  private timer: NodeJS.Timeout | undefined;
  private isStopped = false;

  constructor(options: ReadinessOptions) {
    this.options = options;
  }

  /** Resolves after the first self-test, whatever its result. */
  async start(): Promise<void> {
    try {
      this.newest = await this.options.tools.selfTest();
    } catch {
      this.newest = { backends: [], reason: 'self-test failed to run' };
    }
    if ((this.newest.backends.length > 0 && this.newest.reason === '') || this.isStopped) return;
    this.timer = setTimeout(() => void this.start(), RETRY_MS);
  }

  stop(): void {
    this.isStopped = true;
    clearTimeout(this.timer);
  }

  selfTest(): SelfTest {
    return this.newest;
  }

  /** Empty when orders may start. */
  reason(): string {
    if (this.newest.backends.length === 0) return this.newest.reason || 'no sandbox backend passed its self-test';
    if (this.options.isJournalFull()) return 'journal is full; outcomes wait for the control plane';
    if (!this.options.hasRoom()) return 'the disk of the journal is nearly full; free some space';
    const log = this.options.log();
    if (log !== '') return log;
    const pins = this.options.pins();
    if (pins !== '') return pins;
    return this.options.beats.clockIsOff() ? 'clock is more than 5 s off; set the clock' : '';
  }
}
