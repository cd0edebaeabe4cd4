import {
  type Checkpoint,
  concatBytes,
  encodeEntryBundle,
  entryBundlePath,
  equalBytes,
  type NoteVerifier,
  TILE_WIDTH,
  type Tile,
  tilePath,
  verifySignedNote,
} from '@countersign/merkle';
import type pg from 'pg';
import { proveConsistency } from '../proofs/prove.ts';
import { readHashes } from '../query/fact-index.ts';
import { inTime, RetryLoop } from '../retry-loop.ts';
import type { StoredCheckpoint } from '../sequencer/checkpoint-store.ts';
import type { StreamState } from '../streams/stream-follower.ts';
import type { Place } from './place.ts';

/** Full level-0 tiles between two steps of the durable position. */
const TILES_A_STEP = 64;
const AT_ONCE = 4;
const ANSWER_MS = 30_000;

export type PublisherOptions = {
  readonly name: string;
  readonly place: Place;
  readonly entries: boolean;
  readonly everyMs: number;
  /** May write the position; and reads the log. */
  readonly pool: pg.Pool;
  readonly verifier: NoteVerifier;
  /** The newest checkpoint that is stored. */
  readonly newest: () => StoredCheckpoint;
  /** Resolves with how many entries the tree's nodes cover. */
  readonly indexed: (size: number) => Promise<number>;
  readonly size: () => number;
  readonly now: () => number;
  readonly onProblem: (problem: string) => void;
  readonly pauseMs?: readonly [first: number, longest: number];
  /** Time of one request to the place. */
  readonly answerMs?: number;
};

/** Full tiles that a log has at `to` and did not have at `from`; both are multiples of 256. */
function* newTiles(from: number, to: number): Generator<Tile> {
  for (let level = 0, [low, high] = [from, to]; ; level += 1) {
    [low, high] = [Math.floor(low / TILE_WIDTH), Math.floor(high / TILE_WIDTH)];
    if (high === low) return;
    for (let index = low; index < high; index += 1) yield { level, index, width: TILE_WIDTH };
  }
}

/** Tiles at the end of a log of `size` entries that are not full. */
function* partialTiles(size: number): Generator<Tile> {
  for (let level = 0, hashes = size; hashes > 0; level += 1, hashes = Math.floor(hashes / TILE_WIDTH)) {
    const width = hashes % TILE_WIDTH;
    if (width > 0) yield { level, index: Math.floor(hashes / TILE_WIDTH), width };
  }
}

/**
 * Publishes the log to one place outside, in the tlog-tiles layout: tiles first, then the checkpoint that covers them.
 * INVARIANT: it reads committed rows on connections of its own, so that a place that is slow, refuses or is gone costs its own
 * lag and nothing else; nothing published is replaced but the checkpoint, and that only by one that extends it.
 */
export class Publisher {
  readonly #options: PublisherOptions;
  readonly #loop: RetryLoop;
  /** Entries that the last published checkpoint covers; -1 before it is known. */
  #published = -1;
  /** Entries in full tiles that are there. */
  #tiled = 0;
  #nextMs = 0;

  constructor(options: PublisherOptions) {
    this.#options = options;
    const { onProblem, pauseMs } = options;
    this.#loop = new RetryLoop({
      hasMore: () => this.#published < options.newest().size && options.now() >= this.#nextMs,
      step: (stopping) => this.#step(stopping),
      onProblem,
      pauseMs,
    });
  }

  /** `next` is the size that the published checkpoint covers. */
  state(): StreamState {
    const next = Math.max(0, this.#published);
    const { failures, problem } = this.#loop;
    return {
      name: this.#options.name,
      next,
      lag: Math.max(0, this.#options.size() - next),
      gaps: 0,
      failures,
      problem,
    };
  }

  follow(): void {
    this.#loop.follow();
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
    await this.#options.place.close().catch(() => undefined);
  }

  async #step(stopping: AbortSignal): Promise<void> {
    const { place, newest, indexed, everyMs, now } = this.#options;
    if (this.#published < 0) await this.#load();
    const { size, note } = newest();
    if (size <= this.#published) return;
    if ((await indexed(size)) < size) throw new Error('the tree is not read that far yet');
    const there = await this.#ask(stopping, (signal) => place.checkpoint(signal));
    if (there !== undefined) await this.#checkExtends(there, size);
    if (place.takesTiles) await this.#keepTiles(size, stopping);
    if (there !== note) await this.#ask(stopping, (signal) => place.replaceCheckpoint(note, signal));
    await this.#move('checkpoint', size);
    this.#published = size;
    this.#nextMs = now() + everyMs;
  }

  #ask<T>(stopping: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return inTime(stopping, this.#options.answerMs ?? ANSWER_MS, work);
  }

  #positionOf(what: 'checkpoint' | 'tiles'): string {
    return `publish:${this.#options.name}:${what}`;
  }

  async #load(): Promise<void> {
    const names = [this.#positionOf('checkpoint'), this.#positionOf('tiles')];
    const { rows } = await this.#options.pool.query<{ name: string; next_index: string }>(
      'select name, next_index from audit.follower where name = any($1)',
      [names],
    );
    const at = new Map(rows.map(({ name, next_index }) => [name, Number(next_index)]));
    this.#tiled = at.get(names[1] ?? '') ?? 0;
    this.#published = at.get(names[0] ?? '') ?? 0;
  }

  async #move(what: 'checkpoint' | 'tiles', size: number): Promise<void> {
    await this.#options.pool.query(
      'insert into audit.follower values ($1, $2) on conflict (name) do update set next_index = excluded.next_index',
      [this.#positionOf(what), size],
    );
  }

  /** INVARIANT: a published checkpoint is replaced only by one of the same log that extends it. */
  async #checkExtends(there: string, size: number): Promise<void> {
    const { verifier, pool } = this.#options;
    const read = verifySignedNote(there, verifier);
    if (!read.ok) throw new Error(`the checkpoint there is not of this log: ${read.error.message}`);
    const published: Checkpoint = read.value;
    if (published.size > size)
      throw new Error(
        `the checkpoint there covers ${published.size} entries, this log has ${size}: it was rolled back`,
      );
    const { root } = await proveConsistency(pool, published.size, published.size);
    if (!equalBytes(root, published.root)) throw new Error('the checkpoint there is of another history than this log');
  }

  async #keepTiles(size: number, stopping: AbortSignal): Promise<void> {
    const full = size - (size % TILE_WIDTH);
    while (this.#tiled < full) {
      const to = Math.min(full, this.#tiled + TILES_A_STEP * TILE_WIDTH);
      await this.#keepAll(newTiles(this.#tiled, to), stopping);
      await this.#move('tiles', to);
      this.#tiled = to;
    }
    await this.#keepAll(partialTiles(size), stopping);
  }

  async #keepAll(tiles: Iterator<Tile>, stopping: AbortSignal): Promise<void> {
    const worker = async () => {
      for (let next = tiles.next(); !next.done; next = tiles.next()) await this.#keepTile(next.value, stopping);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  }

  async #keepTile(tile: Tile, stopping: AbortSignal): Promise<void> {
    const { place, pool, entries } = this.#options;
    const [from, to] = [tile.index * TILE_WIDTH, tile.index * TILE_WIDTH + tile.width];
    const hashes = await readHashes(pool, { level: tile.level, from, to });
    if (hashes.length !== tile.width) throw new Error(`hashes of \`${tilePath(tile)}\` are missing; run fsck`);
    await this.#ask(stopping, (signal) => place.keep(tilePath(tile), concatBytes(...hashes), signal));
    if (!entries || tile.level > 0) return;
    const { rows } = await pool.query<{ leaf: Buffer }>(
      'select leaf from audit.entry where log_index >= $1 and log_index < $2 order by log_index',
      [from, to],
    );
    if (rows.length !== tile.width) throw new Error(`entries ${from} to ${to - 1} cannot be read; run fsck`);
    const bundle = encodeEntryBundle(rows.map(({ leaf }) => leaf));
    await this.#ask(stopping, (signal) => place.keep(entryBundlePath(tile.index, tile.width), bundle, signal));
  }
}
