import type pg from 'pg';
import { inTime, RetryLoop } from '../retry-loop.ts';
import { type Sink, type StreamEntry, streamEntry } from './stream-entry.ts';

const BATCH = 200;
/** A batch that was not taken by then has failed and comes again. */
const SEND_MS = 30_000;

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
  readonly #loop: RetryLoop;
  #next = -1;
  #gaps = 0;

  constructor(options: StreamOptions) {
    this.#options = options;
    const { onProblem, pauseMs } = options;
    this.#loop = new RetryLoop({
      hasMore: () => this.#next < options.size(),
      step: (stopping) => this.#step(stopping),
      onProblem,
      pauseMs,
    });
  }

  state(): StreamState {
    const next = Math.max(0, this.#next);
    const { failures, problem } = this.#loop;
    const lag = Math.max(0, this.#options.size() - next);
    return { name: this.#options.name, next, lag, gaps: this.#gaps, failures, problem };
  }

  /** Goes on when there is something to send; does nothing while it is at it. */
  follow(): void {
    this.#loop.follow();
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
    await this.#options.sink.close().catch(() => undefined);
  }

  async #step(stopping: AbortSignal): Promise<void> {
    const { pool, name, sink, sendMs = SEND_MS } = this.#options;
    if (this.#next < 0) {
      const { rows } = await pool.query<{ next_index: string }>(
        'insert into audit.follower as f select $1, kept_from from audit.head on conflict (name) do update set name = f.name returning next_index',
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
    if (entries.length > 0) await inTime(stopping, sendMs, (signal) => sink.send(entries, signal));
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
}
