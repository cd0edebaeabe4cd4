import { type AuditEntry, parseEntry } from '@countersign/merkle';

/** One entry on its way out: what it says, its exact bytes and its place in the tree. */
export type StreamEntry = {
  readonly entry: AuditEntry;
  /** Exact canonical text. */
  readonly text: string;
  /** Hex. */
  readonly leafHash: string;
};

/** An entry of the database; undefined for a leaf that is damaged, which is counted as a gap. */
export function streamEntry(index: number, leaf: Buffer, leafHash: Buffer): StreamEntry | undefined {
  const parsed = parseEntry(leaf);
  if (!parsed.ok || parsed.value.index !== index) return undefined;
  return { entry: parsed.value, text: leaf.toString('utf8'), leafHash: leafHash.toString('hex') };
}

/** Takes entries to one place outside. */
export type Sink = {
  /** Resolves when the place has taken all of them. Rejects otherwise; then the same entries come again. */
  readonly send: (entries: readonly StreamEntry[], signal: AbortSignal) => Promise<void>;
  readonly close: () => Promise<void>;
};
