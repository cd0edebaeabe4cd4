/** SHA-256 (FIPS 180-4); passed in, because this package has no cryptography of its own. */
export type Sha256 = (data: Uint8Array) => Uint8Array;

/** Incremental head of a tree: the roots of its complete subtrees, largest first. At most 64 hashes. */
export type TreeHead = { readonly size: number; readonly stack: readonly Uint8Array[] };

/** Joins byte strings. */
export function concatBytes(...parts: readonly Uint8Array[]): Uint8Array {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/** True when both have the same bytes. Not constant-time: hashes are public. */
export const equalBytes = (a: Uint8Array, b: Uint8Array): boolean => a.length === b.length && sameBytes(a, b);

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  for (let at = 0; at < a.length; at += 1) if (a[at] !== b[at]) return false;
  return true;
}

/** `SHA-256(0x00 ‖ bytes)`, RFC 6962 section 2.1. */
export function leafHash(sha256: Sha256, bytes: Uint8Array): Uint8Array {
  const prefixed = new Uint8Array(bytes.length + 1);
  prefixed.set(bytes, 1);
  return sha256(prefixed);
}

/** `SHA-256(0x01 ‖ left ‖ right)`, RFC 6962 section 2.1. */
export function nodeHash(sha256: Sha256, left: Uint8Array, right: Uint8Array): Uint8Array {
  const prefixed = new Uint8Array(left.length + right.length + 1);
  prefixed[0] = 1;
  prefixed.set(left, 1);
  prefixed.set(right, left.length + 1);
  return sha256(prefixed);
}

const HASH_BYTES = 32;
const isHash = (bytes: Uint8Array): boolean => bytes.length === HASH_BYTES;
const half = (value: number): number => Math.floor(value / 2);

/** INVARIANT: a head holds one hash for each complete subtree, which is one for each set bit of its size. */
function checkHead(head: TreeHead): void {
  let subtrees = 0;
  for (let size = head.size; size > 0; size = half(size)) subtrees += size % 2;
  if (!Number.isSafeInteger(head.size) || head.size < 0 || head.stack.length !== subtrees)
    throw new TypeError('tree head has not as many hashes as its size demands; restore it from the log');
}

/** Head of the empty tree. */
export const emptyTree: TreeHead = { size: 0, stack: [] };

/** Head after one more leaf. The given head stays as it was. Throws when head or leaf hash is damaged. */
export function appendLeaf(sha256: Sha256, head: TreeHead, leaf: Uint8Array): TreeHead {
  checkHead(head);
  if (!isHash(leaf)) throw new TypeError('a leaf hash has 32 bytes; pass the result of `leafHash`');
  const stack = [...head.stack];
  let node = leaf;
  for (let size = head.size; size % 2 === 1; size = (size - 1) / 2) {
    const left = stack.pop();
    if (!left) throw new TypeError('tree head has too few hashes for its size');
    node = nodeHash(sha256, left, node);
  }
  stack.push(node);
  return { size: head.size + 1, stack };
}

/** Root hash: of the empty tree `SHA-256("")`. Throws when the head is damaged. */
export function rootOf(sha256: Sha256, head: TreeHead): Uint8Array {
  checkHead(head);
  if (head.stack.length === 0) return sha256(new Uint8Array());
  return head.stack.reduceRight((right, left) => nodeHash(sha256, left, right));
}

/** Largest power of two smaller than `size`; `size` must be at least 2. */
function splitPoint(size: number): number {
  let split = 1;
  while (split * 2 < size) split *= 2;
  return split;
}

/** Root over leaf hashes. */
export const rootOfLeaves = (sha256: Sha256, leaves: readonly Uint8Array[]): Uint8Array =>
  rootOf(
    sha256,
    leaves.reduce((head, leaf) => appendLeaf(sha256, head, leaf), emptyTree),
  );

const isPlace = (index: number, size: number): boolean =>
  Number.isSafeInteger(index) && Number.isSafeInteger(size) && index >= 0 && index < size;

/** Audit path of leaf `index` in the tree of the first `size` leaves, RFC 6962 section 2.1.1. */
export function inclusionProof(
  sha256: Sha256,
  leaves: readonly Uint8Array[],
  index: number,
  size: number,
): Uint8Array[] {
  if (!(isPlace(index, size) && size <= leaves.length)) throw new RangeError('no such leaf in this tree');
  const path = (from: number, to: number): Uint8Array[] => {
    if (to - from === 1) return [];
    const middle = from + splitPoint(to - from);
    return index < middle
      ? [...path(from, middle), rootOfLeaves(sha256, leaves.slice(middle, to))]
      : [...path(middle, to), rootOfLeaves(sha256, leaves.slice(from, middle))];
  };
  return path(0, size);
}

/** Proof that the tree of `oldSize` leaves is a prefix of that of `newSize`, RFC 6962 section 2.1.2. */
export function consistencyProof(
  sha256: Sha256,
  leaves: readonly Uint8Array[],
  oldSize: number,
  newSize: number,
): Uint8Array[] {
  if (!(isPlace(oldSize - 1, newSize) && newSize <= leaves.length)) throw new RangeError('no such pair of trees');
  const root = (from: number, to: number) => rootOfLeaves(sha256, leaves.slice(from, to));
  const proof = (from: number, to: number, known: boolean): Uint8Array[] => {
    if (oldSize === to) return known ? [] : [root(from, to)];
    const middle = from + splitPoint(to - from);
    return oldSize <= middle
      ? [...proof(from, middle, known), root(middle, to)]
      : [...proof(middle, to, false), root(from, middle)];
  };
  return proof(0, newSize, true);
}

/** What an inclusion proof claims. */
export type InclusionClaim = {
  readonly leaf: Uint8Array;
  readonly index: number;
  readonly size: number;
  readonly proof: readonly Uint8Array[];
  readonly root: Uint8Array;
};

/** Checks an inclusion proof, RFC 9162 section 2.1.3.2. SECURITY: hashes of other lengths would let a node pass as a leaf. */
export function verifyInclusion(sha256: Sha256, claim: InclusionClaim): boolean {
  if (!isPlace(claim.index, claim.size) || ![claim.leaf, claim.root, ...claim.proof].every(isHash)) return false;
  let position = claim.index;
  let last = claim.size - 1;
  let node = claim.leaf;
  for (const hash of claim.proof) {
    if (last === 0) return false;
    if (position % 2 === 1 || position === last) {
      node = nodeHash(sha256, hash, node);
      while (position % 2 === 0 && position !== 0) [position, last] = [half(position), half(last)];
    } else node = nodeHash(sha256, node, hash);
    [position, last] = [half(position), half(last)];
  }
  return last === 0 && equalBytes(node, claim.root);
}

/** What a consistency proof claims. */
export type ConsistencyClaim = {
  readonly oldSize: number;
  readonly newSize: number;
  readonly oldRoot: Uint8Array;
  readonly newRoot: Uint8Array;
  readonly proof: readonly Uint8Array[];
};

/** Checks a consistency proof, RFC 9162 section 2.1.4.2. */
export function verifyConsistency(sha256: Sha256, claim: ConsistencyClaim): boolean {
  const { oldSize, newSize } = claim;
  if (!isPlace(oldSize - 1, newSize) || ![claim.oldRoot, claim.newRoot, ...claim.proof].every(isHash)) return false;
  if (oldSize === newSize) return claim.proof.length === 0 && equalBytes(claim.oldRoot, claim.newRoot);
  let position = oldSize - 1;
  let last = newSize - 1;
  while (position % 2 === 1) [position, last] = [half(position), half(last)];
  const isPower = position === 0;
  const hashes = isPower ? [claim.oldRoot, ...claim.proof] : [...claim.proof];
  const first = hashes.shift();
  if (!first) return false;
  let oldNode = first;
  let newNode = first;
  for (const hash of hashes) {
    if (last === 0) return false;
    if (position % 2 === 1 || position === last) {
      oldNode = nodeHash(sha256, hash, oldNode);
      newNode = nodeHash(sha256, hash, newNode);
      while (position % 2 === 0 && position !== 0) [position, last] = [half(position), half(last)];
    } else newNode = nodeHash(sha256, newNode, hash);
    [position, last] = [half(position), half(last)];
  }
  return last === 0 && equalBytes(oldNode, claim.oldRoot) && equalBytes(newNode, claim.newRoot);
}
