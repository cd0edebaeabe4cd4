const REMEMBER = 10_000;

/** Refuses a message of short validity that was taken before. */
export class SequenceGuard {
  private readonly highest = new Map<string, bigint>();
  private readonly seen = new Set<string>();

  /** True once for each rise: `sequence` must be above every earlier one of this issuer. */
  rises(issuer: string, sequence: bigint): boolean {
    if (sequence <= (this.highest.get(issuer) ?? 0n)) return false;
    this.highest.set(issuer, sequence);
    return true;
  }

  /** True once for each id; for messages that one sender may send side by side. Forgets the oldest of ten thousand. */
  isNew(id: string): boolean {
    if (this.seen.has(id)) return false;
    this.seen.add(id);
    const [oldest] = this.seen;
    if (this.seen.size > REMEMBER && oldest !== undefined) this.seen.delete(oldest);
    return true;
  }
}
