import { createHash } from 'node:crypto';
import { consistencyRanges, type HashRange, inclusionRanges, proofOfRanges, rootRanges } from '@countersign/merkle';
import type pg from 'pg';
import { readHashes } from '../query/fact-index.ts';

const sha256 = (data: Uint8Array): Uint8Array => new Uint8Array(createHash('sha256').update(data).digest());

const keyOf = ({ level, from, to }: HashRange): string => `${level}/${from}/${to}`;

/**
 * Makes proofs out of the database. Every size asked for must be indexed (`FactIndex.upTo`). Reads each range once for all
 * proofs that were asked for together. Throws when a hash is missing, because a proof without it would be wrong.
 */
async function proveAll(
  pool: pg.Pool,
  wanted: readonly (readonly (readonly HashRange[])[])[],
): Promise<Uint8Array[][]> {
  const hashes = new Map<string, Uint8Array[]>();
  for (const range of wanted.flat(2)) {
    if (hashes.has(keyOf(range))) continue;
    const read = await readHashes(pool, range);
    if (read.length !== range.to - range.from) throw new Error(`hashes ${keyOf(range)} of the tree are missing`);
    hashes.set(keyOf(range), read);
  }
  return wanted.map((ranges) => proofOfRanges(sha256, ranges, (range) => hashes.get(keyOf(range)) ?? []));
}

/** Audit paths of entries in the tree of `size`. */
export const proveInclusion = (pool: pg.Pool, indexes: readonly number[], size: number): Promise<Uint8Array[][]> =>
  proveAll(
    pool,
    indexes.map((index) => inclusionRanges(index, size)),
  );

/** Proof from `oldSize` to `newSize`, and the root of the latter. */
export async function proveConsistency(
  pool: pg.Pool,
  oldSize: number,
  newSize: number,
): Promise<{ proof: Uint8Array[]; root: Uint8Array }> {
  const root = [rootRanges(newSize)];
  const [proof = [], roots = []] = await proveAll(pool, [
    oldSize === newSize ? [] : consistencyRanges(oldSize, newSize),
    root,
  ]);
  return { proof, root: roots[0] ?? sha256(new Uint8Array()) };
}
