import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { createRequire } from 'node:module';
import { expect, test } from 'vitest';
import { formatCheckpoint, formatSignedNote, inclusionProof, leafHash, noteKeyId, rootOfLeaves } from './index.ts';

/** The verifier of Sigstore's transparency logs; its checkpoint and tree parts have no entry of their own. */
const require = createRequire(import.meta.url);
type Entry = { canonicalizedBody: Buffer; inclusionProof: object };
type Log = { logID: Buffer; publicKey: object; baseURL: string };
type Checkpoint = { origin: string; logSize: bigint; logHash: Buffer };
const { verifyCheckpoint } = require('@sigstore/verify/dist/tlog/checkpoint.js') as {
  verifyCheckpoint: (entry: Entry, logs: readonly Log[]) => Checkpoint;
};
const { verifyMerkleInclusion } = require('@sigstore/verify/dist/tlog/merkle.js') as {
  verifyMerkleInclusion: (entry: Entry, checkpoint: Checkpoint) => void;
};

const NAME = 'countersign.example/log';
const sha256 = (data: Uint8Array) => new Uint8Array(createHash('sha256').update(data).digest());
const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const rawKey = new Uint8Array(publicKey.export({ type: 'spki', format: 'der' }).subarray(-32));
const keyId = noteKeyId(sha256, NAME, rawKey);
const log: Log = { logID: Buffer.from(keyId), publicKey, baseURL: `https://${NAME}` };

const leaves = Array.from({ length: 300 }, (_, at) => Buffer.from(`{"entry":${at}}`));
const hashes = leaves.map((leaf) => leafHash(sha256, leaf));

function entryAt(index: number, size: number, change: { leaf?: Buffer; root?: Uint8Array } = {}): Entry {
  const root = change.root ?? rootOfLeaves(sha256, hashes.slice(0, size));
  const text = formatCheckpoint({ origin: NAME, size, root });
  const envelope = formatSignedNote(text, [
    { name: NAME, keyId, signature: sign(null, Buffer.from(text), privateKey) },
  ]);
  const proof = inclusionProof(sha256, hashes, index, size).map((hash) => Buffer.from(hash));
  return {
    canonicalizedBody: change.leaf ?? leaves[index] ?? Buffer.alloc(0),
    inclusionProof: { logIndex: String(index), hashes: proof, checkpoint: { envelope } },
  };
}

test("a public transparency-log verifier accepts our checkpoints and proofs, and refuses what is not the log's", () => {
  for (const size of [1, 2, 3, 7, 8, 255, 256, 257, 300])
    for (const index of new Set([0, 1, Math.floor(size / 2), size - 1].filter((at) => at < size))) {
      const entry = entryAt(index, size);
      const checkpoint = verifyCheckpoint(entry, [log]);
      expect([checkpoint.origin, checkpoint.logSize]).toEqual([NAME, BigInt(size)]);
      verifyMerkleInclusion(entry, checkpoint);
      const other = entryAt(index, size, { leaf: Buffer.from('{"entry":"other"}') });
      expect(() => verifyMerkleInclusion(other, checkpoint)).toThrow(/root hash/);
    }
  const stranger = { ...log, publicKey: generateKeyPairSync('ed25519').publicKey };
  expect(() => verifyCheckpoint(entryAt(3, 8), [stranger])).toThrow(/signature/);
});
