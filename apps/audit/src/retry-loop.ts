const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;

export type RetryLoopOptions = {
  /** True while there is something to do. */
  readonly hasMore: () => boolean;
  /** Does the next piece. Rejects when it has to be tried again; must end soon after `stopping` is aborted. */
  readonly step: (stopping: AbortSignal) => Promise<void>;
  readonly onProblem: (problem: string) => void;
  /** Bounds of the pause after a failure, ms; it doubles between them. */
  readonly pauseMs?: readonly [first: number, longest: number] | undefined;
};

/** Does steps one after the other and again after a failure, with growing pauses, for as long as there is something to do. */
export class RetryLoop {
  readonly #options: RetryLoopOptions;
  readonly #stopping = new AbortController();
  readonly #pauses: readonly [number, number];
  #pauseMs: number;
  #running: Promise<void> | undefined;
  /** Steps that failed. */
  failures = 0;
  /** Reason of the last failure; empty when the last step succeeded. */
  problem = '';

  constructor(options: RetryLoopOptions) {
    this.#options = options;
    this.#pauses = options.pauseMs ?? [FIRST_PAUSE_MS, LONGEST_PAUSE_MS];
    this.#pauseMs = this.#pauses[0];
  }

  /** Goes on when there is something to do; does nothing while it is at it. */
  follow(): void {
    if (this.#running || this.#stopping.signal.aborted || !this.#options.hasMore()) return;
    this.#running = this.#run().finally(() => {
      this.#running = undefined;
    });
  }

  /** Resolves when the step under way has ended. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { hasMore, step, onProblem } = this.#options;
    while (!this.#stopping.signal.aborted && hasMore()) {
      try {
        await step(this.#stopping.signal);
        this.problem = '';
        this.#pauseMs = this.#pauses[0];
      } catch (error) {
        this.failures += 1;
        const problem = error instanceof Error ? error.message : String(error);
        if (problem !== this.problem) onProblem(problem);
        this.problem = problem;
        await this.#pause();
      }
    }
  }

  #pause(): Promise<void> {
    const { signal } = this.#stopping;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, this.#pauseMs);
    signal.addEventListener('abort', () => resolve(), { once: true });
    this.#pauseMs = Math.min(this.#pauseMs * 2, this.#pauses[1]);
    return promise.finally(() => clearTimeout(timer));
  }
}

/**
 * Does `work` for at most `limitMs`, and no longer than until `stopping`. SECURITY: rejects then even when the work goes on,
 * because a place that never answers must not hold its sender for ever.
 */
export function inTime<T>(
  stopping: AbortSignal,
  limitMs: number,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const signal = AbortSignal.any([stopping, AbortSignal.timeout(limitMs)]);
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = () => reject(new Error(`no answer within ${limitMs} ms`));
  signal.addEventListener('abort', abort, { once: true });
  return Promise.race([work(signal), promise]).finally(() => signal.removeEventListener('abort', abort));
}
