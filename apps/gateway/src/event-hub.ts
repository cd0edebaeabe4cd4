/** Names of the desk's events. */
export const DESK_EVENTS = ['approval_request', 'approval_resolved', 'call', 'freeze', 'break_glass'] as const;

/** An event of the desk's stream; `data` holds masked text only. */
export type DeskEvent = {
  readonly id: number;
  readonly name: (typeof DESK_EVENTS)[number];
  readonly data: string;
  /** Queue of the call that it is about; decides who may see it. */
  readonly queue: string;
};

/** An event before the feed gave it its number. */
export type NewEvent = Omit<DeskEvent, 'id'>;

const RING = 10_000;
const MAX_LISTENERS = 1_000;

/** `undefined`: events may be missing; list again. */
type Listener = (event: DeskEvent | undefined) => void;

/**
 * Events of all gateways, numbered by the feed that they share, for live streams and their resume at any of them. INVARIANT:
 * listeners get every event in the feed's order, or are told to list again.
 */
export class EventHub {
  readonly #ring: DeskEvent[] = [];
  readonly #listeners = new Set<Listener>();
  readonly #own = new Set<(event: NewEvent) => void>();
  #publish: (event: NewEvent) => void = () => undefined;

  /** Where events go to be numbered. */
  connect(publish: (event: NewEvent) => void): void {
    this.#publish = publish;
  }

  emit(name: DeskEvent['name'], data: object, queue: string): void {
    const event = { name, data: JSON.stringify(data), queue };
    for (const listener of this.#own) listener(event);
    this.#publish(event);
  }

  /** Takes the next event of the feed. */
  deliver(event: DeskEvent): void {
    if (event.id <= (this.#ring.at(-1)?.id ?? 0)) return;
    this.#ring.push(event);
    if (this.#ring.length > RING) this.#ring.shift();
    for (const listener of this.#listeners) listener(event);
  }

  /** The feed broke: nobody can tell what is missing. */
  reset(): void {
    this.#ring.length = 0;
    for (const listener of this.#listeners) listener(undefined);
  }

  /** Events after `lastId`; undefined when some of them are gone and the reader must list again. */
  since(lastId: number): readonly DeskEvent[] | undefined {
    const first = this.#ring[0]?.id;
    const last = this.#ring.at(-1)?.id;
    if (first === undefined || last === undefined || lastId < first - 1 || lastId > last) return undefined;
    return this.#ring.filter(({ id }) => id > lastId);
  }

  /** Follows events; returns the end of it, or undefined when too many follow already. */
  follow(listener: Listener): (() => void) | undefined {
    if (this.#listeners.size >= MAX_LISTENERS) return undefined;
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Follows what this gateway emits, so that one of them acts on each event. */
  followOwn(listener: (event: NewEvent) => void): () => void {
    this.#own.add(listener);
    return () => this.#own.delete(listener);
  }

  /** People and programs that follow at this gateway. */
  get followers(): number {
    return this.#listeners.size;
  }
}
