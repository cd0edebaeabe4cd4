import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import {
  type DroppedLeaf,
  decodeEntryBundle,
  decodeTile,
  encodeEntryBundle,
  entryBundlePath,
  leafHash,
  type Problem,
  TILE_WIDTH,
  TileBuilder,
  type TileBytes,
  tilePath,
} from '@countersign/merkle';
import { sha256 } from './log-crypto.ts';

/** A bundle of the largest entries there can be. */
const MAX_BUNDLE = TILE_WIDTH * 65_537;

function write(folder: string, name: string, bytes: Uint8Array): void {
  const file = path.join(folder, name);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, bytes);
}

/** Writes a log in the tlog-tiles layout; holds one bundle and one tile of each level in memory. */
export class TileFolderWriter {
  readonly #folder: string;
  readonly #withEntries: boolean;
  readonly #builder = new TileBuilder(sha256);
  #bundle: Uint8Array[] = [];
  #size = 0;

  /** Without entries only the hash tiles are written. */
  constructor(folder: string, withEntries: boolean) {
    this.#folder = folder;
    this.#withEntries = withEntries;
  }

  get size(): number {
    return this.#size;
  }

  add(leaf: Uint8Array): void {
    if (this.#withEntries) this.#bundle.push(leaf);
    this.#size += 1;
    this.#writeTiles(this.#builder.push(leafHash(sha256, leaf)));
    if (this.#bundle.length === TILE_WIDTH) this.#writeBundle();
  }

  /** An entry that was dropped: its hash is a part of the tiles, and there is no bundle with it. */
  addDropped(hash: Uint8Array): void {
    this.#size += 1;
    this.#writeTiles(this.#builder.push(hash));
  }

  /** Writes the partial tiles and the checkpoint that covers all. */
  end(checkpoint: string): void {
    if (this.#bundle.length > 0) this.#writeBundle();
    this.#writeTiles(this.#builder.rest());
    write(this.#folder, 'checkpoint', new TextEncoder().encode(checkpoint));
  }

  #writeTiles(tiles: readonly TileBytes[]): void {
    for (const { tile, bytes } of tiles) write(this.#folder, tilePath(tile), bytes);
  }

  #writeBundle(): void {
    const index = Math.ceil(this.#size / TILE_WIDTH) - 1;
    write(this.#folder, entryBundlePath(index, this.#bundle.length), encodeEntryBundle(this.#bundle));
    this.#bundle = [];
  }
}

/** A file of a tile folder with its width: the full one, or the widest of the partial ones. */
function findTile(folder: string, pathOf: (width: number) => string): { file: string; width: number } | undefined {
  const full = path.join(folder, pathOf(TILE_WIDTH));
  if (existsSync(full)) return { file: full, width: TILE_WIDTH };
  const partial = path.dirname(path.join(folder, pathOf(1)));
  const widths = existsSync(partial) ? readdirSync(partial).filter((name) => /^[1-9][0-9]{0,2}$/.test(name)) : [];
  const width = Math.max(0, ...widths.map(Number));
  return width > 0 && width < TILE_WIDTH ? { file: path.join(partial, String(width)), width } : undefined;
}

function readBytes(file: string): Uint8Array {
  const bytes = readFileSync(file);
  return bytes.length > MAX_BUNDLE ? bytes.subarray(0, MAX_BUNDLE) : bytes;
}

/** Reads a log in the tlog-tiles layout. `problems` is complete after `leaves` was read to its end and `end` was called. */
export class TileFolderReader {
  readonly problems: Problem[] = [];
  readonly #folder: string;
  readonly #builder = new TileBuilder(sha256);
  #tile: { index: number; hashes: Uint8Array[] | undefined } = { index: -1, hashes: undefined };

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Hashes of dropped entries, then entries in order; ends at the first bundle that is not there or not whole. */
  *leaves(): Generator<Uint8Array | DroppedLeaf> {
    const first = this.#firstBundle();
    for (let index = 0; index < first * TILE_WIDTH; index += 1) {
      const leafHash = this.hashInTiles(index);
      if (!leafHash) {
        this.problems.push({ index, code: 'tile', message: 'the hash of a dropped entry is missing' });
        return;
      }
      yield { leafHash };
    }
    for (let index = first; ; index += 1) {
      const found = findTile(this.#folder, (width) => entryBundlePath(index, width));
      if (!found) return;
      const { leaves, isWhole } = decodeEntryBundle(readBytes(found.file));
      yield* leaves.slice(0, TILE_WIDTH);
      if (!isWhole || leaves.length !== found.width) {
        const message = `bundle \`${path.relative(this.#folder, found.file)}\` is not ${found.width} whole entries`;
        this.problems.push({
          index: index * TILE_WIDTH + Math.min(leaves.length, found.width),
          code: 'bundle',
          message,
        });
        return;
      }
      if (found.width < TILE_WIDTH) return;
    }
  }

  /** Hash of leaf `index` in the level-0 tiles; undefined when there is none. */
  readonly hashInTiles = (index: number): Uint8Array | undefined => {
    const tile = Math.floor(index / TILE_WIDTH);
    if (this.#tile.index !== tile) this.#tile = { index: tile, hashes: this.#readTile(tile) };
    return this.#tile.hashes?.[index % TILE_WIDTH];
  };

  /** The first bundle of entries that is there; those before it were dropped, as far as their hash tiles are full. */
  #firstBundle(): number {
    const isThere = (pathOf: (width: number) => string) => findTile(this.#folder, pathOf) !== undefined;
    let index = 0;
    while (!isThere((width) => entryBundlePath(index, width))) {
      if (!existsSync(path.join(this.#folder, tilePath({ level: 0, index, width: TILE_WIDTH })))) return 0;
      index += 1;
    }
    return index;
  }

  #readTile(index: number): Uint8Array[] | undefined {
    const found = findTile(this.#folder, (width) => tilePath({ level: 0, index, width }));
    return found && decodeTile(readBytes(found.file), found.width);
  }

  /** Compares the tiles that come of the leaves with those of the folder. */
  readonly onLeaf = (leaf: Uint8Array): void => this.#compare(this.#builder.push(leaf));

  /** Compares the partial tiles. */
  end(): void {
    this.#compare(this.#builder.rest());
  }

  /** Level-0 tiles of the right length are compared hash by hash, by whoever asks `hashInTiles`. */
  #compare(tiles: readonly TileBytes[]): void {
    for (const { tile, bytes } of tiles) {
      const name = tilePath(tile);
      const file = path.join(this.#folder, name);
      const index = tile.index * TILE_WIDTH ** (tile.level + 1);
      const found = existsSync(file) ? readBytes(file) : undefined;
      if (!found) this.problems.push({ index, code: 'tile', message: `hash tile \`${name}\` is missing` });
      else if (found.length !== bytes.length)
        this.problems.push({ index, code: 'tile', message: `hash tile \`${name}\` has not ${tile.width} hashes` });
      else if (tile.level > 0 && Buffer.compare(found, bytes) !== 0)
        this.problems.push({ index, code: 'tile', message: `hash tile \`${name}\` is not what the entries give` });
    }
  }
}
