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
        if (size > 1) expect(verifyInclusion(sha256, { ...claim, index: (index + 1) % size })).toBe(false);
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
      }),
    );
  });
});
