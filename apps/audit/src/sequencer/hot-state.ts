import type { CallMemory } from './call-memory.ts';
import type { ColdKeys, ColdState, KnownDocument, KnownEntry } from './cold-state.ts';

/** Items that memory keeps beyond those of the last two batches, of each kind. */
const MAX_ITEMS = 20_000;

type Kept<T> = { readonly value: T; readonly batch: number };

/** A map in the order of writing that forgets its oldest items, but never what a batch in flight has written. */
class BoundedMap<T> {
  readonly #items = new Map<string, Kept<T>>();
  #batch = 0;

  get(key: string): T | undefined {
    return this.#items.get(key)?.value;
  }

  has(key: string): boolean {
    return this.#items.has(key);
  }

  set(key: string, value: T): this {
    this.#items.delete(key);
    this.#items.set(key, { value, batch: this.#batch });
    return this;
  }

  get size(): number {
    return this.#items.size;
  }

  /** Begins the next batch: what was written before the last one may be forgotten. */
  next(limit: number): void {
    this.#batch += 1;
    for (const [key, { batch }] of this.#items) {
      if (this.#items.size <= limit || batch >= this.#batch - 1) return;
      this.#items.delete(key);
    }
  }
}

/**
 * What the sequencer remembers between batches. INVARIANT: what memory holds is newer than, or equal to, what the database
 * holds, because only the sequencer writes; so a key that memory holds is never read again.
 */
export class HotState implements ColdState {
  readonly calls = new BoundedMap<CallMemory>();
  readonly entries = new BoundedMap<KnownEntry>();
  readonly streams = new BoundedMap<{ seq: number; leaf: string }>();
  readonly documents = new BoundedMap<KnownDocument>();
  readonly #limit: number;

  constructor(limit = MAX_ITEMS) {
    this.#limit = limit;
  }

  /** Begins a batch: forgets the oldest, then tells which of `keys` have to be read. */
  missing(keys: ColdKeys): ColdKeys {
    for (const map of [this.calls, this.entries, this.streams, this.documents]) map.next(this.#limit);
    return {
      calls: keys.calls.filter((key) => !this.calls.has(key)),
      entries: keys.entries.filter((key) => !this.entries.has(key)),
      streams: keys.streams.filter((key) => !this.streams.has(key)),
      documents: keys.documents.filter((key) => !this.documents.has(key)),
    };
  }
}
