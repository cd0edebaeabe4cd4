const HOUR_MS = 3_600_000;
const MAX_SESSIONS = 10_000;

/** Counts requests to providers, retries included, for each session and for the last hour. Lost at a restart. */
export class RequestBudget {
  readonly #perSession: number;
  readonly #perHour: number;
  readonly #sessions = new Map<string, number>();
  #recent: number[] = [];

  constructor(limits: { readonly requestsPerSession: number; readonly requestsPerHour: number }) {
    this.#perSession = limits.requestsPerSession;
    this.#perHour = limits.requestsPerHour;
  }

  /** Spends one request; returns why not when a budget is spent. */
  spend(sessionId: string, nowMs: number): string | undefined {
    if (this.#recent[0] !== undefined && this.#recent[0] <= nowMs - HOUR_MS)
      this.#recent = this.#recent.filter((atMs) => atMs > nowMs - HOUR_MS);
    const spent = this.#sessions.get(sessionId) ?? 0;
    if (spent >= this.#perSession) return `the session has spent its ${this.#perSession} review requests`;
    if (this.#recent.length >= this.#perHour) return `the ${this.#perHour} review requests of this hour are spent`;
    this.#recent.push(nowMs);
    this.#sessions.delete(sessionId);
    this.#sessions.set(sessionId, spent + 1);
    const oldest = this.#sessions.keys().next().value;
    if (this.#sessions.size > MAX_SESSIONS && oldest !== undefined) this.#sessions.delete(oldest);
    return undefined;
  }
}
