import { concatBytes, nodeHash, rootOfLeaves, type Sha256 } from './tree.ts';

/** Hashes or entries in a full tile, C2SP tlog-tiles. */
export const TILE_WIDTH = 256;
const HASH_BYTES = 32;
const LENGTH_BYTES = 2;

/** One tile of a tree: `width` hashes of level `level`, each the root of `256 ** level` entries. */
export type Tile = { readonly level: number; readonly index: number; readonly width: number };

function numberPath(index: number): string {
  const digits = String(index);
  const padded = digits.padStart(Math.ceil(digits.length / 3) * 3, '0');
  const parts = padded.match(/.{3}/g) ?? [];
  return parts.map((part, at) => (at === parts.length - 1 ? part : `x${part}`)).join('/');
}

const withWidth = (path: string, width: number): string => (width === TILE_WIDTH ? path : `${path}.p/${width}`);

/** Path of a hash tile below the log's prefix, as `tile/0/x001/234`, with `.p/<width>` for a partial one. */
export const tilePath = ({ level, index, width }: Tile): string =>
  withWidth(`tile/${level}/${numberPath(index)}`, width);

/** Path of the bundle with the entries of the level-0 tile of that index. */
export const entryBundlePath = (index: number, width: number): string =>
  withWidth(`tile/entries/${numberPath(index)}`, width);

/** Tiles of one level of a tree with `size` entries, in order; the last one may be partial. */
export function* tilesOfLevel(level: number, size: number): Generator<Tile> {
  const hashes = Math.floor(size / TILE_WIDTH ** level);
  for (let index = 0; index * TILE_WIDTH < hashes; index += 1)
    yield { level, index, width: Math.min(TILE_WIDTH, hashes - index * TILE_WIDTH) };
}

/** Every hash tile of a tree with `size` entries, lowest level first. */
export function* tilesOf(size: number): Generator<Tile> {
  for (let level = 0; TILE_WIDTH ** level <= size; level += 1) yield* tilesOfLevel(level, size);
}

/** Entries of one bundle, each after its length in two bytes, big-endian. Throws for an entry over 65,535 bytes. */
export function encodeEntryBundle(leaves: readonly Uint8Array[]): Uint8Array {
  return concatBytes(
    ...leaves.flatMap((leaf) => {
      if (leaf.length > 0xff_ff) throw new RangeError('an entry of a bundle has at most 65,535 bytes');
      return [Uint8Array.of(leaf.length >> 8, leaf.length & 0xff), leaf];
    }),
  );
}

/** Reads a bundle. `isWhole` is false when it ends inside an entry; the entries before that are still given. */
export function decodeEntryBundle(bytes: Uint8Array): { leaves: Uint8Array[]; isWhole: boolean } {
  const leaves: Uint8Array[] = [];
  let at = 0;
  while (at + LENGTH_BYTES <= bytes.length) {
    const end = at + LENGTH_BYTES + (((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0));
    if (end > bytes.length) return { leaves, isWhole: false };
    leaves.push(bytes.subarray(at + LENGTH_BYTES, end));
    at = end;
  }
  return { leaves, isWhole: at === bytes.length };
}

/** Hashes of a tile; undefined unless there are exactly `width`. */
export function decodeTile(bytes: Uint8Array, width: number): Uint8Array[] | undefined {
  if (bytes.length !== width * HASH_BYTES) return undefined;
  return Array.from({ length: width }, (_, at) => bytes.subarray(at * HASH_BYTES, (at + 1) * HASH_BYTES));
}

/** Hashes `from` to `to` (exclusive) of tile level `level`, whose root is the root of one complete subtree. */
export type HashRange = { readonly level: number; readonly from: number; readonly to: number };

/** Complete subtrees, largest first, that make up entries `from` to `to`; `from` must be a multiple of the largest. */
function subtreesOf(from: number, to: number): HashRange[] {
  const ranges: HashRange[] = [];
  let start = from;
  while (start < to) {
    let width = 1;
    while (width * 2 <= to - start) width *= 2;
    let level = 0;
    while (TILE_WIDTH ** (level + 1) <= width) level += 1;
    const unit = TILE_WIDTH ** level;
    ranges.push({ level, from: start / unit, to: (start + width) / unit });
    start += width;
  }
  return ranges;
}

function splitPoint(size: number): number {
  let split = 1;
  while (split * 2 < size) split *= 2;
  return split;
}

const isPlace = (index: number, size: number): boolean =>
  Number.isSafeInteger(index) && Number.isSafeInteger(size) && index >= 0 && index < size;

/**
 * What an audit path needs of the tiles: for each hash of the path the ranges that it is made of. No range crosses a tile.
 * Throws a RangeError when there is no such entry.
 */
export function inclusionRanges(index: number, size: number): HashRange[][] {
  if (!isPlace(index, size)) throw new RangeError('no such entry in this tree');
  const path: HashRange[][] = [];
  let [from, to] = [0, size];
  while (to - from > 1) {
    const middle = from + splitPoint(to - from);
    if (index < middle) {
      path.push(subtreesOf(middle, to));
      to = middle;
    } else {
      path.push(subtreesOf(from, middle));
      from = middle;
    }
  }
  return path.reverse();
}

/** As `inclusionRanges`, for the proof that the tree of `oldSize` is a prefix of that of `newSize`. */
export function consistencyRanges(oldSize: number, newSize: number): HashRange[][] {
  if (!isPlace(oldSize - 1, newSize)) throw new RangeError('no such pair of trees');
  const path: HashRange[][] = [];
  let [from, to, isKnown] = [0, newSize, true];
  while (oldSize !== to) {
    const middle = from + splitPoint(to - from);
    if (oldSize <= middle) {
      path.push(subtreesOf(middle, to));
      to = middle;
    } else {
      path.push(subtreesOf(from, middle));
      from = middle;
      isKnown = false;
    }
  }
  if (!isKnown) path.push(subtreesOf(from, to));
  return path.reverse();
}

/** Proof of the ranges that were asked for. `hashesOf` gives the hashes of one range. */
export const proofOfRanges = (
  sha256: Sha256,
  ranges: readonly (readonly HashRange[])[],
  hashesOf: (range: HashRange) => readonly Uint8Array[],
): Uint8Array[] =>
  ranges.map((parts) =>
    parts
      .map((range) => rootOfLeaves(sha256, hashesOf(range)))
      .reduceRight((right, left) => nodeHash(sha256, left, right)),
  );

/** Ranges whose roots make up the root of a tree with `size` entries. */
export const rootRanges = (size: number): HashRange[] => subtreesOf(0, size);

/** Root of a full tile: pairs, then pairs of pairs. */
function rootOfTile(sha256: Sha256, hashes: readonly Uint8Array[]): Uint8Array {
  let level = hashes;
  while (level.length > 1) {
    const above: Uint8Array[] = [];
    for (let at = 0; at < level.length; at += 2)
      above.push(nodeHash(sha256, level[at] as Uint8Array, level[at + 1] as Uint8Array));
    level = above;
  }
  return level[0] as Uint8Array;
}

/** A tile with its bytes, as it is stored. */
export type TileBytes = { readonly tile: Tile; readonly bytes: Uint8Array };

/** Makes the hash tiles of a log from its leaf hashes, in one pass; holds at most one tile of each level. */
export class TileBuilder {
  readonly #sha256: Sha256;
  readonly #levels: { index: number; hashes: Uint8Array[] }[] = [];

  constructor(sha256: Sha256) {
    this.#sha256 = sha256;
  }

  /** Takes the next leaf hash; returns the tiles that became full by it, lowest level first. */
  push(leaf: Uint8Array): TileBytes[] {
    const full: TileBytes[] = [];
    let hash = leaf;
    for (let level = 0; ; level += 1) {
      const at = this.#levels[level] ?? { index: 0, hashes: [] };
      this.#levels[level] = at;
      at.hashes.push(hash);
      if (at.hashes.length < TILE_WIDTH) return full;
      full.push({ tile: { level, index: at.index, width: TILE_WIDTH }, bytes: concatBytes(...at.hashes) });
      hash = rootOfTile(this.#sha256, at.hashes);
      this.#levels[level] = { index: at.index + 1, hashes: [] };
    }
  }

  /** The partial tiles at the end of the log. */
  rest(): TileBytes[] {
    return this.#levels.flatMap(({ index, hashes }, level) =>
      hashes.length === 0 ? [] : [{ tile: { level, index, width: hashes.length }, bytes: concatBytes(...hashes) }],
    );
  }
}
