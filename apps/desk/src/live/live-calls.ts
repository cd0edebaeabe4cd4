import type { Call } from '../api/calls.ts';

/** State of the line to the gateway. */
export type Line = 'connecting' | 'live' | 'offline';

/** How a call that was waiting ended, as far as the gateway told. */
export type Ended = { readonly state: string; readonly by: string };

/** What the desk knows at one moment. Every change makes a new object. */
export type Snapshot = {
  readonly line: Line;
  /** False until the first list arrived. */
  readonly loaded: boolean;
  /** Waiting calls, oldest first. */
  readonly calls: readonly Call[];
  readonly ended: ReadonlyMap<string, Ended>;
  /** Answers that calls got which need more of them, counted since the page opened. */
  readonly answers: ReadonlyMap<string, number>;
  /** Why the list may be out of date. */
  readonly problem: string | undefined;
  /** True when more calls wait than the desk read. */
  readonly cut: boolean;
};

/** A change that the gateway told of. */
export type LiveEvent =
  | { readonly kind: 'call'; readonly call: Call }
  | { readonly kind: 'resolved'; readonly callId: string; readonly state: string; readonly by: string }
  | { readonly kind: 'answered'; readonly callId: string }
  | { readonly kind: 'reset' };

type Source = { readonly read: () => Promise<{ calls: readonly Call[]; cut: boolean }> };

const MAX_ENDED = 500;
const byAge = (a: Call, b: Call): number => a.receivedMs - b.receivedMs || (a.callId < b.callId ? -1 : 1);

/** The object that is known already where nothing changed, so that what was made from it can be kept. */
function unlessSame(call: Call, known: Call | undefined): Call {
  if (!known) return call;
  const names = Object.keys(call) as (keyof Call)[];
  const same = names.length === Object.keys(known).length && names.every((name) => call[name] === known[name]);
  return same ? known : call;
}

/**
 * The waiting calls, kept current by events and read again after every connect and reset. Events that arrive while a list
 * is read are applied on top of it, so that an older list never brings an answered call back.
 * INVARIANT: a call leaves only when the gateway said that it does not wait any more.
 */
export class LiveCalls {
  readonly #source: Source;
  readonly #schedule: (run: () => void) => void;
  readonly #watchers = new Set<() => void>();
  readonly #newCall = new Set<(call: Call) => void>();
  #waiting = new Map<string, Call>();
  #ended = new Map<string, Ended>();
  #answers = new Map<string, number>();
  #during: LiveEvent[] | undefined;
  #again = false;
  #scheduled = false;
  #snapshot: Snapshot = {
    line: 'connecting',
    loaded: false,
    calls: [],
    ended: new Map(),
    answers: new Map(),
    problem: undefined,
    cut: false,
  };

  /** `schedule` bundles changes, for example to the next frame. */
  constructor(source: Source, schedule: (run: () => void) => void) {
    this.#source = source;
    this.#schedule = schedule;
  }

  snapshot = (): Snapshot => this.#snapshot;

  watch = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  };

  /** Called with each call that begins to wait after the first list. */
  onNew = (listener: (call: Call) => void): (() => void) => {
    this.#newCall.add(listener);
    return () => this.#newCall.delete(listener);
  };

  line(line: Line): void {
    if (this.#snapshot.line !== line) this.#publish({ line });
  }

  take(event: LiveEvent): void {
    if (event.kind === 'reset') {
      void this.reload();
      return;
    }
    this.#during?.push(event);
    this.#apply(event);
    this.#changed();
  }

  /** Reads the list again. A second request while one runs makes one more read afterwards. */
  async reload(): Promise<void> {
    if (this.#during) {
      this.#again = true;
      return;
    }
    const during: LiveEvent[] = [];
    this.#during = during;
    try {
      const { calls, cut } = await this.#source.read();
      const before = this.#waiting;
      this.#waiting = new Map(calls.map((call) => [call.callId, unlessSame(call, before.get(call.callId))]));
      for (const callId of before.keys()) if (!this.#waiting.has(callId)) this.#end(callId, { state: '', by: '' });
      for (const callId of this.#waiting.keys()) this.#ended.delete(callId);
      for (const event of during) this.#apply(event);
      this.#publish({ loaded: true, problem: undefined, cut, ...this.#lists() });
    } catch (error) {
      this.#publish({ problem: error instanceof Error ? error.message : String(error) });
    } finally {
      this.#during = undefined;
    }
    if (!this.#again) return;
    this.#again = false;
    await this.reload();
  }

  #apply(event: LiveEvent): void {
    if (event.kind === 'answered') {
      this.#answers.set(event.callId, (this.#answers.get(event.callId) ?? 0) + 1);
    } else if (event.kind === 'resolved') {
      if (event.state === 'pending') return;
      this.#waiting.delete(event.callId);
      this.#end(event.callId, { state: event.state, by: event.by });
    } else if (event.kind === 'call') {
      const { call } = event;
      if (call.state === 'pending') {
        const isNew = !this.#waiting.has(call.callId);
        this.#waiting.set(call.callId, call);
        this.#ended.delete(call.callId);
        if (isNew && this.#snapshot.loaded) for (const listener of this.#newCall) listener(call);
      } else {
        this.#waiting.delete(call.callId);
        this.#end(call.callId, { state: call.state, by: call.decidedByName ?? '' });
      }
    }
  }

  #end(callId: string, ended: Ended): void {
    const known = this.#ended.get(callId);
    this.#ended.set(callId, { state: ended.state || (known?.state ?? ''), by: ended.by || (known?.by ?? '') });
    const first = this.#ended.keys().next().value;
    if (this.#ended.size > MAX_ENDED && first !== undefined) this.#ended.delete(first);
  }

  #lists(): Pick<Snapshot, 'calls' | 'ended' | 'answers'> {
    return {
      calls: [...this.#waiting.values()].sort(byAge),
      ended: new Map(this.#ended),
      answers: new Map(this.#answers),
    };
  }

  #changed(): void {
    // Before the first list arrived, the calls that events told of are only a part of those that wait.
    if (this.#scheduled || !this.#snapshot.loaded) return;
    this.#scheduled = true;
    this.#schedule(() => {
      this.#scheduled = false;
      this.#publish(this.#lists());
    });
  }

  #publish(change: Partial<Snapshot>): void {
    this.#snapshot = { ...this.#snapshot, ...change };
    for (const watcher of this.#watchers) watcher();
  }
}
