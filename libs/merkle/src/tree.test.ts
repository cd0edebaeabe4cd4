import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  appendLeaf,
  consistencyProof,
  emptyTree,
  inclusionProof,
  leafHash,
  rootOf,
  rootOfLeaves,
  verifyConsistency,
  verifyInclusion,
} from './index.ts';

const sha256 = (data: Uint8Array) => new Uint8Array(createHash('sha256').update(data).digest());
const vectors = JSON.parse(readFileSync(new URL('../../../vectors/merkle/roots.json', import.meta.url), 'utf8')) as {
  leaves: string[];
  roots: string[];
};
const published = vectors.leaves.map((leaf) => leafHash(sha256, Buffer.from(leaf, 'hex')));
const leavesOf = (count: number) =>
  Array.from({ length: count }, (_, at) => leafHash(sha256, Uint8Array.of(at, at >> 8)));
const flip = (bytes: Uint8Array) => Uint8Array.from(bytes, (byte, at) => (at === 0 ? byte ^ 1 : byte));

test.each(vectors.roots.map((root, size) => [size, root] as const))(
  'the tree of %i leaves has its published root',
  (size, root) => {
    const head = published.slice(0, size).reduce((tree, leaf) => appendLeaf(sha256, tree, leaf), emptyTree);
    expect(Buffer.from(rootOf(sha256, head)).toString('hex')).toBe(root);
  },
);

const proofs = JSON.parse(readFileSync(new URL('../../../vectors/merkle/proofs.json', import.meta.url), 'utf8')) as {
  inclusion: { index: number; size: number; proof: string[] }[];
  consistency: { oldSize: number; newSize: number; proof: string[] }[];
};
const fromHex = (text: string | undefined) => new Uint8Array(Buffer.from(text ?? '', 'hex'));

test.each(proofs.inclusion)('the published audit path of leaf $index of $size is made and verifies', (vector) => {
  const { index, size } = vector;
  const proof = vector.proof.map(fromHex);
  expect(inclusionProof(sha256, published, index, size)).toEqual(proof);
  const leaf = published[index] as Uint8Array;
  expect(verifyInclusion(sha256, { leaf, index, size, proof, root: fromHex(vectors.roots[size]) })).toBe(true);
});

test.each(proofs.consistency)('the published proof from $oldSize to $newSize is made and verifies', (vector) => {
  const { oldSize, newSize } = vector;
  const proof = vector.proof.map(fromHex);
  const [oldRoot, newRoot] = [fromHex(vectors.roots[oldSize]), fromHex(vectors.roots[newSize])];
  expect(consistencyProof(sha256, published, oldSize, newSize)).toEqual(proof);
  expect(verifyConsistency(sha256, { oldSize, newSize, oldRoot, newRoot, proof })).toBe(true);
});

describe('claims that no tree can make are refused', () => {
  const leaves = leavesOf(2);
  const [left, right] = leaves as [Uint8Array, Uint8Array];
  const root = rootOfLeaves(sha256, leaves);
  const claim = { leaf: left, index: 0, size: 2, proof: [right], root };
  const joined = Buffer.concat([left, right]);

  test.each([
    ['a place between two leaves', { leaf: root, index: 0.5, size: 1, proof: [] }],
    ['a place that is no number', { index: Number.NaN }],
    ['a negative place', { index: -1 }],
    ['a size without end', { size: Number.POSITIVE_INFINITY }],
    ['a size that no number holds exactly', { size: 2 ** 53 }],
    ['bytes moved from the proof to the leaf', { leaf: joined.subarray(0, 33), proof: [joined.subarray(33)] }],
    ['a whole node as the leaf of a tree of one', { leaf: joined, size: 1, proof: [] }],
    ['a proof too short', { proof: [] }],
  ])('%s', (_title, change) => {
    expect(verifyInclusion(sha256, claim)).toBe(true);
    expect(verifyInclusion(sha256, { ...claim, ...change })).toBe(false);
  });

  test.each([
    ['nothing extends to something', { oldSize: 0, oldRoot: rootOfLeaves(sha256, []), proof: [] }],
    ['a tree shrinks', { oldSize: 3, newSize: 2 }],
    ['half a leaf', { oldSize: 0.5 }],
    ['the same size with another root', { oldSize: 2, proof: [] }],
    ['the same size with a proof', { oldSize: 2, oldRoot: root }],
    ['a hash of another length', { proof: [right.slice(1)] }],
    ['bytes moved from the proof to the old root', { oldRoot: joined.subarray(0, 33), proof: [joined.subarray(33)] }],
  ])('%s', (_title, change) => {
    const step = { oldSize: 1, newSize: 2, oldRoot: left, newRoot: root, proof: [right] };
    expect(verifyConsistency(sha256, step)).toBe(true);
    expect(verifyConsistency(sha256, { ...step, ...change })).toBe(false);
  });

  test('proofs are made only for what is in the tree', () => {
    expect(() => inclusionProof(sha256, leaves, 2, 2)).toThrow(RangeError);
    expect(() => inclusionProof(sha256, leaves, 0, 3)).toThrow(RangeError);
    expect(() => inclusionProof(sha256, leaves, 0.5, 2)).toThrow(RangeError);
    expect(() => consistencyProof(sha256, leaves, 0, 2)).toThrow(RangeError);
    expect(() => consistencyProof(sha256, leaves, 2, 1)).toThrow(RangeError);
    expect(() => consistencyProof(sha256, leaves, 1, 3)).toThrow(RangeError);
  });
});

describe('the incremental head', () => {
  test('holds one hash for each set bit of the size, also after it was stored as JSON', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 300 }), (size) => {
        const head = leavesOf(size).reduce((tree, leaf) => appendLeaf(sha256, tree, leaf), emptyTree);
        expect(head.stack.length).toBe(size.toString(2).replaceAll('0', '').length);
        const stored = JSON.stringify({ size: head.size, stack: head.stack.map((hash) => [...hash]) });
        const read = JSON.parse(stored) as { size: number; stack: number[][] };
        const again = { size: read.size, stack: read.stack.map((hash) => Uint8Array.from(hash)) };
        const next = leafHash(sha256, Uint8Array.of(9));
        expect(rootOf(sha256, appendLeaf(sha256, again, next))).toEqual(rootOf(sha256, appendLeaf(sha256, head, next)));
      }),
      { numRuns: 30 },
    );
  });

  test('a damaged head gives no root and takes no leaf', () => {
    const [leaf] = leavesOf(1) as [Uint8Array];
    for (const head of [
      { size: 3, stack: [leaf] },
      { size: 0, stack: [leaf] },
      { size: -1, stack: [] },
      { size: 2.5, stack: [leaf, leaf] },
    ]) {
      expect(() => rootOf(sha256, head)).toThrow(TypeError);
      expect(() => appendLeaf(sha256, head, leaf)).toThrow(TypeError);
    }
    expect(() => appendLeaf(sha256, emptyTree, leaf.slice(1))).toThrow(TypeError);
  });
});

describe('proofs', () => {
  test('each inclusion proof verifies, and for no other leaf, place or root', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 70 }), fc.nat(), (size, seed) => {
        const leaves = leavesOf(size);
        const index = seed % size;
        const claim = {
          leaf: leaves[index] as Uint8Array,
          index,
          size,
          proof: inclusionProof(sha256, leaves, index, size),
          root: rootOfLeaves(sha256, leaves),
        };
        expect(verifyInclusion(sha256, claim)).toBe(true);
        expect(verifyInclusion(sha256, { ...claim, leaf: flip(claim.leaf) })).toBe(false);
        expect(verifyInclusion(sha256, { ...claim, root: flip(claim.root) })).toBe(false);
        expect(verifyInclusion(sha256, { ...claim, proof: [...claim.proof, claim.leaf] })).toBe(false);
        for (let other = 0; other < size; other += 1)
          if (other !== index) expect(verifyInclusion(sha256, { ...claim, index: other })).toBe(false);
        for (const at of claim.proof.keys()) {
          const changed = claim.proof.with(at, flip(claim.proof[at] as Uint8Array));
          expect(verifyInclusion(sha256, { ...claim, proof: changed })).toBe(false);
          expect(verifyInclusion(sha256, { ...claim, proof: claim.proof.toSpliced(at, 1) })).toBe(false);
        }
      }),
    );
  });

  test('each consistency proof verifies, and for no other old or new root', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 70 }), fc.nat(), (newSize, seed) => {
        const leaves = leavesOf(newSize);
        const oldSize = 1 + (seed % newSize);
        const claim = {
          oldSize,
          newSize,
          oldRoot: rootOfLeaves(sha256, leaves.slice(0, oldSize)),
          newRoot: rootOfLeaves(sha256, leaves),
          proof: consistencyProof(sha256, leaves, oldSize, newSize),
        };
        expect(verifyConsistency(sha256, claim)).toBe(true);
        expect(verifyConsistency(sha256, { ...claim, oldRoot: flip(claim.oldRoot) })).toBe(false);
        expect(verifyConsistency(sha256, { ...claim, newRoot: flip(claim.newRoot) })).toBe(false);
        expect(verifyConsistency(sha256, { ...claim, proof: [...claim.proof, claim.newRoot] })).toBe(false);
        for (const at of claim.proof.keys()) {
          const changed = claim.proof.with(at, flip(claim.proof[at] as Uint8Array));
          expect(verifyConsistency(sha256, { ...claim, proof: changed })).toBe(false);
          expect(verifyConsistency(sha256, { ...claim, proof: claim.proof.toSpliced(at, 1) })).toBe(false);
        }
      }),
    );
  });
});
