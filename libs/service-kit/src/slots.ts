/** A bounded number of places and a bounded line of those who wait for one, first come first served. */
export class Slots {
  readonly #waitingLimit: number;
  readonly #line: (() => void)[] = [];
  #free: number;

  constructor(places: number, waitingLimit: number) {
    this.#free = places;
    this.#waitingLimit = waitingLimit;
  }

  /** Takes a place; the returned function gives it back, once. `full`: the line is full. `aborted`: `signal` came first. */
  async take(signal: AbortSignal): Promise<(() => void) | 'full' | 'aborted'> {
    if (signal.aborted) return 'aborted';
    if (this.#free > 0) {
      this.#free -= 1;
      return this.#giveBack();
    }
    if (this.#line.length >= this.#waitingLimit) return 'full';
    return new Promise((resolve) => {
      const enter = () => {
        signal.removeEventListener('abort', leave);
        resolve(this.#giveBack());
      };
      const leave = () => {
        const at = this.#line.indexOf(enter);
        if (at >= 0) this.#line.splice(at, 1);
        resolve('aborted');
      };
      this.#line.push(enter);
      signal.addEventListener('abort', leave, { once: true });
    });
  }

  #giveBack(): () => void {
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      const next = this.#line.shift();
      if (next) next();
      else this.#free += 1;
    };
  }
}
