/** What a call is checked against. */
export type FreezeFacts = {
  readonly agent: string;
  readonly host: string;
  /** The call's session and its ancestors. */
  readonly sessions: readonly string[];
};

/**
 * What is frozen, as the newest beat or answer of the audit service says. The sequencer is the one who refuses; this spares
 * the question and names the scope.
 */
export class FreezeWatch {
  #epoch = 0n;
  #scopes: ReadonlySet<string> = new Set();

  get epoch(): bigint {
    return this.#epoch;
  }

  /** Takes a state; an older one than the present changes nothing. */
  take(epoch: bigint, scopes: Iterable<string>): void {
    if (epoch < this.#epoch) return;
    this.#epoch = epoch;
    this.#scopes = new Set(scopes);
  }

  /** The scope that holds a call; undefined when none does. */
  holds({ agent, host, sessions }: FreezeFacts): string | undefined {
    if (this.#scopes.size === 0) return undefined;
    const wanted = ['all', `host:${host}`, `agent:${agent}`, ...sessions.map((id) => `session:${id}`)];
    return wanted.find((scope) => this.#scopes.has(scope));
  }
}
