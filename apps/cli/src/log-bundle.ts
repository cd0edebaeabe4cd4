import { Buffer } from 'node:buffer';
import { createHash, createPublicKey, verify } from 'node:crypto';
import { type Verification, verifyBundle } from '@countersign/merkle';
import { rawPublicKey } from '@countersign/protocol';
import { z } from 'zod';
import { EXIT, RefusedError } from './output.ts';

const leafSchema = z.strictObject({ leaf: z.base64() });
const checkpointSchema = z.strictObject({ checkpoint: z.string().min(1) });

const verifyEd25519 = (publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean => {
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(publicKey).toString('base64url') };
  return verify(null, message, createPublicKey({ key: jwk, format: 'jwk' }), signature);
};

const sha256 = (data: Uint8Array): Uint8Array => new Uint8Array(createHash('sha256').update(data).digest());

/** Bytes of a leaf line. A damaged line stands as its own text, which no entry is, so that it is found at its index. */
function leafBytes(line: string): Uint8Array {
  try {
    return new Uint8Array(Buffer.from(leafSchema.parse(JSON.parse(line)).leaf, 'base64'));
  } catch {
    return new TextEncoder().encode(line);
  }
}

function checkpointOf(line: string | undefined): string | undefined {
  try {
    return checkpointSchema.parse(JSON.parse(line ?? '')).checkpoint;
  } catch {
    return undefined;
  }
}

/**
 * Verifies an exported log (NDJSON: leaves, then the checkpoint) without any service. Damage is a problem at its index;
 * a missing checkpoint is a problem of the whole log. Throws a RefusedError with exit code 2 when the text is empty.
 * @param log the log's name and public key, `U…`.
 * @param olderCheckpoint a signed note that the auditor kept; the log must extend it.
 */
export function verifyExport(
  text: string,
  log: { readonly publicKey: string; readonly name: string },
  olderCheckpoint?: string,
): Verification {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  if (lines.length === 0) {
    throw new RefusedError('the export is empty; export again', 'countersign.cli.bad_bundle', EXIT.usage);
  }
  const checkpoint = checkpointOf(lines.at(-1));
  const leaves = (checkpoint === undefined ? lines : lines.slice(0, -1)).map(leafBytes);
  const verifier = { name: log.name, publicKey: rawPublicKey(log.publicKey), verifyEd25519, sha256 };
  const older = olderCheckpoint === undefined ? {} : { olderCheckpoint };
  return verifyBundle({ leaves, checkpoint: checkpoint ?? '', ...older, ...verifier });
}
