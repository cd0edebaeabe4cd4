import type { BudgetFile } from './budget-file.ts';

const HOUR_MS = 3_600_000;
const MAX_SESSIONS = 10_000;

/**
 * Counts requests to providers, retries included, for each session and for the last hour. With a file the counts outlive the
 * service. INVARIANT: a request is counted in the file before it leaves; one that cannot be counted is not sent.
 */
export class RequestBudget {
  readonly #perSession: number;
  readonly #perHour: number;
  readonly #file: BudgetFile | undefined;
  readonly #sessions: Map<string, number>;
  #recent: number[];

  constructor(limits: { readonly requestsPerSession: number; readonly requestsPerHour: number }, file?: BudgetFile) {
    this.#perSession = limits.requestsPerSession;
    this.#perHour = limits.requestsPerHour;
    this.#file = file;
    const spent = file?.read();
    this.#sessions = new Map(spent?.sessions);
    this.#recent = [...(spent?.recent ?? [])];
  }

  /** Spends one request; returns why not when a budget is spent. Opinions leave half of the hour to reviews that decide. */
  spend(sessionId: string, nowMs: number, advisory = false): string | undefined {
    if (this.#recent[0] !== undefined && this.#recent[0] <= nowMs - HOUR_MS)
      this.#recent = this.#recent.filter((atMs) => atMs > nowMs - HOUR_MS);
    const spent = this.#sessions.get(sessionId) ?? 0;
    if (spent >= this.#perSession) return `the session has spent its ${this.#perSession} review requests`;
    if (this.#recent.length >= this.#perHour) return `the ${this.#perHour} review requests of this hour are spent`;
    if (advisory && this.#recent.length >= this.#perHour / 2) return 'the requests of this hour for opinions are spent';
    this.#recent.push(nowMs);
    this.#sessions.delete(sessionId);
    this.#sessions.set(sessionId, spent + 1);
    const oldest = this.#sessions.keys().next().value;
    if (this.#sessions.size > MAX_SESSIONS && oldest !== undefined) this.#sessions.delete(oldest);
    return this.#keep();
  }

  #keep(): string | undefined {
    try {
      this.#file?.write({ sessions: [...this.#sessions], recent: this.#recent });
      return undefined;
    } catch {
      return 'what is spent cannot be written down';
    }
  }
}
