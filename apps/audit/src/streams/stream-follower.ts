import type pg from 'pg';
import { type Sink, type StreamEntry, streamEntry } from './stream-entry.ts';

const BATCH = 200;
/** A batch that was not taken by then has failed and comes again. */
const SEND_MS = 30_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;

type Row = { log_index: string; leaf: Buffer; leaf_hash: Buffer };

/** What a stream has done so far. */
export type StreamState = {
  readonly name: string;
  /** Index of the next entry to send; everything before it was taken. */
  readonly next: number;
  /** Entries that are recorded and not taken. */
  readonly lag: number;
  /** Entries that could not be read and were passed over. */
  readonly gaps: number;
  readonly failures: number;
  /** Reason of the last failure; empty when the last batch was taken. */
  readonly problem: string;
};

export type StreamOptions = {
  readonly name: string;
  readonly sink: Sink;
  readonly pool: pg.Pool;
  /** Entries that are recorded. */
  readonly size: () => number;
  readonly onProblem: (problem: string) => void;
  /** Bounds of the pause after a failure, ms. */
  readonly pauseMs?: readonly [first: number, longest: number];
  readonly sendMs?: number;
};

const positionOf = (name: string): string => `stream:${name}`;

/**
 * Takes the log to one sink, entry by entry in index order, at least once. INVARIANT: it reads committed rows on connections
 * of its own and holds one batch, so that a sink that is slow, hangs or breaks costs its own lag and nothing else; its
 * position moves only after the sink took a batch.
 */
export class StreamFollower {
  readonly #options: StreamOptions;
  readonly #stopping = new AbortController();
  #next = -1;
  #gaps = 0;
  #failures = 0;
  #problem = '';
  #pauseMs: number;
  #running: Promise<void> | undefined;

  constructor(options: StreamOptions) {
    this.#options = options;
    this.#pauseMs = this.#pauses[0];
  }

  get #pauses(): readonly [number, number] {
    return this.#options.pauseMs ?? [FIRST_PAUSE_MS, LONGEST_PAUSE_MS];
  }

  state(): StreamState {
    const next = Math.max(0, this.#next);
    return {
      name: this.#options.name,
      next,
      lag: Math.max(0, this.#options.size() - next),
      gaps: this.#gaps,
      failures: this.#failures,
      problem: this.#problem,
    };
  }

  /** Goes on when there is something to send; does nothing while it is at it. */
  follow(): void {
    if (this.#running || this.#stopping.signal.aborted) return;
    if (this.#next >= this.#options.size()) return;
    this.#running = this.#run().finally(() => {
      this.#running = undefined;
    });
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
    await this.#options.sink.close().catch(() => undefined);
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted && this.#next < this.#options.size()) {
      try {
        await this.#step();
        this.#problem = '';
        this.#pauseMs = this.#pauses[0];
      } catch (error) {
        this.#failures += 1;
        const problem = error instanceof Error ? error.message : String(error);
        if (problem !== this.#problem) this.#options.onProblem(problem);
        this.#problem = problem;
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

  async #step(): Promise<void> {
    const { pool, name } = this.#options;
    if (this.#next < 0) {
      const { rows } = await pool.query<{ next_index: string }>(
        'insert into audit.follower as f values ($1, 0) on conflict (name) do update set name = f.name returning next_index',
        [positionOf(name)],
      );
      this.#next = Number(rows[0]?.next_index ?? 0);
      return;
    }
    const { rows } = await pool.query<Row>(
      'select log_index, leaf, leaf_hash from audit.entry join audit.entry_key using (log_index) where log_index >= $1 order by log_index limit $2',
      [this.#next, BATCH],
    );
    if (rows.length === 0) return;
    const entries: StreamEntry[] = [];
    let gaps = 0;
    for (const [at, row] of rows.entries()) {
      const index = Number(row.log_index);
      const before = at === 0 ? this.#next - 1 : Number(rows[at - 1]?.log_index);
      gaps += index - before - 1;
      const entry = streamEntry(index, row.leaf, row.leaf_hash);
      if (entry) entries.push(entry);
      else gaps += 1;
    }
    if (entries.length > 0) await this.#send(entries);
    const next = Number(rows.at(-1)?.log_index) + 1;
    await pool.query('update audit.follower set next_index = $2 where name = $1 and next_index < $2', [
      positionOf(name),
      next,
    ]);
    this.#next = next;
    this.#gaps += gaps;
    if (gaps > 0)
      this.#options.onProblem(`${gaps} entries before ${next} cannot be read; run \`countersign audit fsck\``);
  }

  /** SECURITY: a sink that never answers must not hold the stream for ever. */
  #send(entries: readonly StreamEntry[]): Promise<void> {
    const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(this.#options.sendMs ?? SEND_MS)]);
    const { promise, reject } = Promise.withResolvers<never>();
    const abort = () => reject(new Error('the sink did not take the entries in time'));
    signal.addEventListener('abort', abort, { once: true });
    return Promise.race([this.#options.sink.send(entries, signal), promise]).finally(() =>
      signal.removeEventListener('abort', abort),
    );
  }
}
