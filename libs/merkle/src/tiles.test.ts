import { createHash, createPublicKey, verify } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  concatBytes,
  consistencyProof,
  consistencyRanges,
  decodeEntryBundle,
  decodeTile,
  encodeEntryBundle,
  entryBundlePath,
  formatLogProof,
  type HashRange,
  inclusionProof,
  inclusionRanges,
  leafHash,
  parseLogProof,
  proofOfRanges,
  rootOfLeaves,
  rootRanges,
  TILE_WIDTH,
  TileBuilder,
  tilePath,
  tilesOf,
  verifyConsistency,
  verifyInclusion,
  verifySignedNote,
} from './index.ts';

const sha256 = (data: Uint8Array) => new Uint8Array(createHash('sha256').update(data).digest());
const hexOf = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

type ProofVector = { index: number; size: number; proof: string[] };
/** Made with golang.org/x/mod/sumdb by tools/transparency-vectors. */
const vectors = JSON.parse(
  readFileSync(new URL('../../../vectors/merkle/tlog-tiles.json', import.meta.url), 'utf8'),
) as {
  sizes: number[];
  roots: Record<string, string>;
  tiles: Record<string, { count: number; last: string; sha256: string }>;
  inclusion: ProofVector[];
  consistency: ProofVector[];
  name: string;
  publicKey: string;
  note: string;
};

/** Hashes of every tile level over the first 70,000 entries of the vectors. */
const levels: Uint8Array[][] = [
  Array.from({ length: 70_000 }, (_, at) => leafHash(sha256, new TextEncoder().encode(String(at)))),
];
for (let level = 0; (levels[level] ?? []).length >= TILE_WIDTH; level += 1) {
  const below = levels[level] ?? [];
  levels.push(
    Array.from({ length: Math.floor(below.length / TILE_WIDTH) }, (_, at) =>
      rootOfLeaves(sha256, below.slice(at * TILE_WIDTH, (at + 1) * TILE_WIDTH)),
    ),
  );
}
const hashesOf = ({ level, from, to }: HashRange) => levels[level]?.slice(from, to) ?? [];
const [rootOf] = [(size: number) => proofOfRanges(sha256, [rootRanges(size)], hashesOf)[0] as Uint8Array];

describe('a transparency-log library that is not ours gives the same', () => {
  test.each(vectors.sizes)('root and tiles at size %i', (size) => {
    expect(hexOf(rootOf(size))).toBe(vectors.roots[size]);
    const tiles = [...tilesOf(size)];
    const sum = createHash('sha256');
    for (const tile of tiles) {
      const { level, index, width } = tile;
      sum.update(`${tilePath(tile)}\n`);
      sum.update(concatBytes(...hashesOf({ level, from: index * TILE_WIDTH, to: index * TILE_WIDTH + width })));
    }
    const last = tiles.at(-1);
    expect({ count: tiles.length, last: last && tilePath(last), sha256: sum.digest('hex') }).toEqual(
      vectors.tiles[size],
    );
  });

  test('the tiles made in one pass are the same', () => {
    const builder = new TileBuilder(sha256);
    const made = [...(levels[0] ?? []).flatMap((leaf) => builder.push(leaf)), ...builder.rest()];
    made.sort((a, b) => a.tile.level - b.tile.level || a.tile.index - b.tile.index);
    const sum = createHash('sha256');
    for (const { tile, bytes } of made) sum.update(`${tilePath(tile)}\n`).update(bytes);
    expect(sum.digest('hex')).toBe(vectors.tiles[70_000]?.sha256);
  });

  test.each(vectors.inclusion)('audit path of $index in $size', ({ index, size, proof }) => {
    const ours = proofOfRanges(sha256, inclusionRanges(index, size), hashesOf);
    expect(ours.map(hexOf)).toEqual(proof);
    const leaf = levels[0]?.[index] as Uint8Array;
    expect(verifyInclusion(sha256, { leaf, index, size, proof: ours, root: rootOf(size) })).toBe(true);
  });

  test.each(vectors.consistency)('proof from $index to $size', ({ index, size, proof }) => {
    const ours = proofOfRanges(sha256, consistencyRanges(index, size), hashesOf);
    expect(ours.map(hexOf)).toEqual(proof);
    const claim = { oldSize: index, newSize: size, oldRoot: rootOf(index), newRoot: rootOf(size), proof: ours };
    expect(verifyConsistency(sha256, claim)).toBe(true);
  });

  test('its signed checkpoint verifies', () => {
    const read = verifySignedNote(vectors.note, {
      name: vectors.name,
      publicKey: Buffer.from(vectors.publicKey, 'hex'),
      sha256,
      verifyEd25519: (key, message, signature) =>
        verify(
          null,
          message,
          createPublicKey({
            key: { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(key).toString('base64url') },
            format: 'jwk',
          }),
          signature,
        ),
    });
    expect(read.ok && { size: read.value.size, root: hexOf(read.value.root) }).toEqual({
      size: 70_000,
      root: vectors.roots[70_000],
    });
  });
});

test('proofs out of tiles are those of the definition, and no range crosses a tile', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1_500 }), fc.nat(), (size, seed) => {
      const index = seed % size;
      const all = levels[0]?.slice(0, size) ?? [];
      const ranges = [...inclusionRanges(index, size), ...consistencyRanges(index + 1, size), rootRanges(size)].flat();
      for (const { from, to } of ranges) expect(Math.floor(from / TILE_WIDTH)).toBe(Math.floor((to - 1) / TILE_WIDTH));
      expect(proofOfRanges(sha256, inclusionRanges(index, size), hashesOf)).toEqual(
        inclusionProof(sha256, all, index, size),
      );
      expect(proofOfRanges(sha256, consistencyRanges(index + 1, size), hashesOf)).toEqual(
        consistencyProof(sha256, all, index + 1, size),
      );
    }),
    { numRuns: 40 },
  );
});

test.each([
  [{ level: 0, index: 0, width: 256 }, 'tile/0/000'],
  [{ level: 0, index: 1_234_067, width: 256 }, 'tile/0/x001/x234/067'],
  [{ level: 63, index: 999, width: 1 }, 'tile/63/999.p/1'],
  [{ level: 1, index: 1_000, width: 17 }, 'tile/1/x001/000.p/17'],
])('tile %j is at %s', (tile, path) => {
  expect(tilePath(tile)).toBe(path);
});

test('a bundle of entries reads back, and one that is cut gives the entries before the cut', () => {
  expect(entryBundlePath(1_000, 4)).toBe('tile/entries/x001/000.p/4');
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 600 }), { maxLength: 20 }), fc.nat(), (leaves, seed) => {
      const bundle = encodeEntryBundle(leaves);
      expect(decodeEntryBundle(bundle)).toEqual({ leaves, isWhole: true });
      if (bundle.length === 0) return;
      const cut = decodeEntryBundle(bundle.subarray(0, seed % bundle.length));
      expect(cut.leaves).toEqual(leaves.slice(0, cut.leaves.length));
      expect(cut.leaves.length).toBeLessThan(leaves.length);
    }),
  );
  expect(() => encodeEntryBundle([new Uint8Array(65_536)])).toThrow(RangeError);
  expect(decodeTile(new Uint8Array(33), 1)).toBeUndefined();
});

describe('tlog-proof', () => {
  const proof = { index: 7, proof: [sha256(new Uint8Array())], checkpoint: vectors.note };

  test('reads back, with and without extra data', () => {
    expect(parseLogProof(formatLogProof(proof))).toEqual({ ok: true, value: proof });
    const extra = { ...proof, extra: Uint8Array.of(1, 2) };
    expect(parseLogProof(formatLogProof(extra))).toEqual({ ok: true, value: extra });
    expect(() => formatLogProof({ ...proof, index: -1 })).toThrow(RangeError);
  });

  test.each([
    ['another header', (text: string) => text.replace('@v1', '@v2')],
    ['an index with a leading zero', (text: string) => text.replace('index 7', 'index 07')],
    ['no index', (text: string) => text.replace('index 7\n', '')],
    ['a short hash', (text: string) => text.replace(/index 7\n.*\n/, 'index 7\nAAAA\n')],
    ['base64 that is not canonical', (text: string) => text.replace(/index 7\n.*\n/, `index 7\n${'A'.repeat(42)}B=\n`)],
    [
      'more hashes than a tree has levels',
      (text: string) => text.replace(/(index 7\n)(.*\n)/, (_, a, b) => a + b.repeat(65)),
    ],
    ['no checkpoint', (text: string) => text.slice(0, text.indexOf('\n\n'))],
    ['carriage returns', (text: string) => text.replaceAll('\n', '\r\n')],
  ])('%s is refused', (_name, change) => {
    expect(parseLogProof(change(formatLogProof(proof))).ok).toBe(false);
  });
});
