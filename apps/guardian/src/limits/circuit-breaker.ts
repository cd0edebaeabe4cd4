/** Leaves a failing provider alone: after `faults` faults in a row nothing is sent for `openMs`, then one trial. */
export class CircuitBreaker {
  readonly #faults: number;
  readonly #openMs: number;
  #inRow = 0;
  #openUntilMs = 0;
  #trial = false;

  constructor(limits: { readonly breakerFaults: number; readonly breakerOpenMs: number }) {
    this.#faults = limits.breakerFaults;
    this.#openMs = limits.breakerOpenMs;
  }

  /** True when a request may be sent now. Each true is followed by exactly one `report`. */
  admit(nowMs: number): boolean {
    if (this.#inRow < this.#faults) return true;
    if (nowMs < this.#openUntilMs || this.#trial) return false;
    this.#trial = true;
    return true;
  }

  /** Takes note of how a request ended; `neutral` says nothing about the provider. */
  report(outcome: 'answered' | 'fault' | 'neutral', nowMs: number): void {
    this.#trial = false;
    if (outcome === 'neutral') return;
    this.#inRow = outcome === 'fault' ? this.#inRow + 1 : 0;
    if (this.#inRow >= this.#faults) this.#openUntilMs = nowMs + this.#openMs;
  }
}
