/** Longest time until a round reads every waiting call again, whatever was missed. */
const WHOLE_MS = 60_000;

type Waiting = { readonly deadlineMs: number; readonly place: string };

/**
 * What rounds have learnt of waiting calls, so that thousands of them are not read again every few seconds. Only a hint: what
 * is due is read from the record, and every minute all of it.
 */
export class WaitingCalls {
  readonly #known = new Map<string, Waiting>();
  readonly #files = new Map<string, string>();
  #wholeAtMs = 0;

  isKnown(callId: string): boolean {
    return this.#known.has(callId);
  }

  /** `place`: host and project, whose permission files decide on the call. */
  note(callId: string, deadlineMs: number, place: string): void {
    this.#known.set(callId, { deadlineMs, place });
  }

  /** True once when every waiting call is to be read again; what was learnt before is forgotten then. */
  isWholeDue(nowMs: number): boolean {
    if (nowMs - this.#wholeAtMs < WHOLE_MS) return false;
    this.#wholeAtMs = nowMs;
    this.#known.clear();
    return true;
  }

  /** Calls whose deadline is over; each is named once. */
  takeDue(nowMs: number): string[] {
    const due = [...this.#known].filter(([, { deadlineMs }]) => nowMs > deadlineMs).map(([callId]) => callId);
    for (const callId of due) this.#known.delete(callId);
    return due;
  }

  /** Places where something waits. */
  places(): ReadonlySet<string> {
    return new Set([...this.#known.values()].map(({ place }) => place));
  }

  /** Notes the permission files of a place; other ones than before make the next round read every waiting call. */
  noteFiles(place: string, state: string): void {
    const before = this.#files.get(place);
    this.#files.set(place, state);
    if (before !== undefined && before !== state) this.#wholeAtMs = 0;
  }

  /** Forgets the files of places where nothing waits. */
  forgetFiles(places: ReadonlySet<string>): void {
    for (const place of this.#files.keys()) if (!places.has(place)) this.#files.delete(place);
  }
}
