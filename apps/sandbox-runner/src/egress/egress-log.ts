/** One connection that a command asked the proxy for. */
export type Hop = {
  readonly via: 'connect' | 'http' | 'socks';
  /** As far as it could be read. */
  readonly host: string;
  readonly port: number;
  /** Address that was checked and connected to. */
  readonly address?: string;
  /** Why it was refused; absent when it was let through. */
  readonly refused?: string;
};

const MAX_HOPS = 200;
const MAX_HOST_CHARS = 253;

/** Hops of one run, in order; the newest are only counted when there are too many. */
export class EgressLog {
  #lines: string[] = [];
  #refusals: string[] = [];
  #left = 0;

  add({ via, host, port, address, refused }: Hop): void {
    if (this.#lines.length >= MAX_HOPS) {
      this.#left += 1;
      return;
    }
    const target = `\`${JSON.stringify(host.slice(0, MAX_HOST_CHARS)).slice(1, -1)}:${port}\``;
    const outcome = refused === undefined ? `allowed, connected to ${address ?? 'nothing'}` : `refused: ${refused}`;
    this.#lines.push(`${via} ${target} ${outcome}`);
    if (refused !== undefined) this.#refusals.push(`network: ${target} ${refused}`);
  }

  /** Begins anew. */
  clear(): void {
    this.#lines = [];
    this.#refusals = [];
    this.#left = 0;
  }

  /** A line for each hop. */
  lines(): readonly string[] {
    return this.#left === 0 ? [...this.#lines] : [...this.#lines, `${this.#left} more hops`];
  }

  /** What was refused, each once. */
  refusals(): readonly string[] {
    return [...new Set(this.#refusals)];
  }
}
