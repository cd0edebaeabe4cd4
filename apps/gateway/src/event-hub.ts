/** An event of the desk's stream; `data` holds masked text only. */
export type DeskEvent = {
  readonly id: number;
  readonly name: 'approval_request' | 'approval_resolved' | 'call' | 'freeze' | 'break_glass';
  readonly data: string;
  /** Queue of the call that it is about; decides who may see it. */
  readonly queue: string;
};

const RING = 2_000;
const MAX_LISTENERS = 1_000;

/** Events of the last while, for live streams and their resume. */
export class EventHub {
  readonly #ring: DeskEvent[] = [];
  readonly #listeners = new Set<(event: DeskEvent) => void>();
  #last: number;

  constructor(startMs: number) {
    // Ids of a later run are higher, so that a resume from an earlier run is told to read the list again.
    this.#last = startMs * 1_000;
  }

  emit(name: DeskEvent['name'], data: object, queue: string): void {
    this.#last += 1;
    const event = { id: this.#last, name, data: JSON.stringify(data), queue };
    this.#ring.push(event);
    if (this.#ring.length > RING) this.#ring.shift();
    for (const listener of this.#listeners) listener(event);
  }

  /** Events after `lastId`; undefined when some of them are gone and the reader must list again. */
  since(lastId: number): readonly DeskEvent[] | undefined {
    const first = this.#ring[0]?.id ?? this.#last + 1;
    if (lastId < first - 1 || lastId > this.#last) return undefined;
    return this.#ring.filter(({ id }) => id > lastId);
  }

  /** Follows events; returns the end of it, or undefined when too many follow already. */
  follow(listener: (event: DeskEvent) => void): (() => void) | undefined {
    if (this.#listeners.size >= MAX_LISTENERS) return undefined;
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
