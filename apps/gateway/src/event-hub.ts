/** Names of the desk's events. */
export const DESK_EVENTS = [
  'approval_request',
  'approval_resolved',
  'call',
  'freeze',
  'break_glass',
  'turn_paused',
  'permission_request',
  'permission_resolved',
] as const;

/** An event of the desk's stream; `data` holds masked text only. */
export type DeskEvent = {
  readonly id: number;
  readonly name: (typeof DESK_EVENTS)[number];
  readonly data: string;
  /** Queue of the call that it is about; decides who may see it. */
  readonly queue: string;
};

/** An event with its bytes on a stream of server-sent events, made once for all readers. */
export type FramedEvent = DeskEvent & { readonly frame: Buffer };

/** An event before the feed gave it its number. */
export type NewEvent = Omit<DeskEvent, 'id'>;

const RING = 10_000;
const MAX_LISTENERS = 2_000;

/** `undefined`: events may be missing; list again. */
type Listener = (event: FramedEvent | undefined) => void;

/** True when a follower may decide on the calls of `queue` that are made for `principal`. */
export type Decides = (call: { readonly queue: string; readonly principal: string }) => boolean;

/**
 * Events of all gateways, numbered by the feed that they share, for live streams and their resume at any of them. INVARIANT:
 * listeners get every event in the feed's order, or are told to list again.
 */
export class EventHub {
  readonly #ring: FramedEvent[] = [];
  /** Who follows: whether an approval of a queue's calls can come from there. */
  readonly #listeners = new Map<Listener, Decides>();
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
    const frame = Buffer.from(`id: ${event.id}\nevent: ${event.name}\ndata: ${event.data}\n\n`);
    const framed = { ...event, frame };
    this.#ring.push(framed);
    if (this.#ring.length > RING) this.#ring.shift();
    for (const listener of this.#listeners.keys()) listener(framed);
  }

  /** The feed broke: nobody can tell what is missing. */
  reset(): void {
    this.#ring.length = 0;
    for (const listener of this.#listeners.keys()) listener(undefined);
  }

  /** Number of the newest event; 0 before the first, and after a break of the feed. */
  get lastId(): number {
    return this.#ring.at(-1)?.id ?? 0;
  }

  /** Events after `lastId`; undefined when some of them are gone and the reader must list again. */
  since(lastId: number): readonly FramedEvent[] | undefined {
    const first = this.#ring[0]?.id;
    const last = this.#ring.at(-1)?.id;
    if (first === undefined || last === undefined || lastId < first - 1 || lastId > last) return undefined;
    return this.#ring.filter(({ id }) => id > lastId);
  }

  /** Follows events; returns the end of it, or undefined when too many follow already. */
  follow(listener: Listener, decides: Decides): (() => void) | undefined {
    if (this.#listeners.size >= MAX_LISTENERS) return undefined;
    this.#listeners.set(listener, decides);
    return () => this.#listeners.delete(listener);
  }

  /** True when somebody who may decide on such a call follows at this gateway. */
  isFollowed(call: Parameters<Decides>[0]): boolean {
    return [...this.#listeners.values()].some((decides) => decides(call));
  }

  /** Follows what this gateway emits, so that one of them acts on each event. */
  followOwn(listener: (event: NewEvent) => void): () => void {
    this.#own.add(listener);
    return () => this.#own.delete(listener);
  }
}
