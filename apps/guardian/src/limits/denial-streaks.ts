const MAX_SESSIONS = 10_000;

/**
 * Pauses a session after a number of denials in a row, until a person looked. Only verdicts count. A paused session is
 * never forgotten; when memory is full of them, sessions that are not known count as paused. Lost at a restart.
 */
export class DenialStreaks {
  readonly #limit: number;
  readonly #inRow = new Map<string, number>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  paused(sessionId: string): boolean {
    const inRow = this.#inRow.get(sessionId);
    if (inRow === undefined) return this.#inRow.size >= MAX_SESSIONS && !this.#forgetOne();
    return inRow >= this.#limit;
  }

  /** Takes note of a verdict. A session that was paused meanwhile stays so. */
  record(sessionId: string, approved: boolean): void {
    const inRow = this.#inRow.get(sessionId) ?? 0;
    if (inRow >= this.#limit) return;
    this.#inRow.delete(sessionId);
    if (!approved) this.#inRow.set(sessionId, inRow + 1);
  }

  /** Ends a pause; false when there was none. */
  resume(sessionId: string): boolean {
    const paused = (this.#inRow.get(sessionId) ?? 0) >= this.#limit;
    if (paused) this.#inRow.delete(sessionId);
    return paused;
  }

  #forgetOne(): boolean {
    for (const [sessionId, inRow] of this.#inRow) if (inRow < this.#limit) return this.#inRow.delete(sessionId);
    return false;
  }
}
