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

/**
 * Verifies an exported log (NDJSON: leaves, then the checkpoint) without any service.
 * @param olderCheckpoint a signed note that the auditor kept; the log must extend it.
 * @param publicKey the log's key, `U…`. Throws a RefusedError with exit code 2 when the text is no export.
 */
export function verifyExport(
  text: string,
  log: { readonly publicKey: string; readonly name: string },
  olderCheckpoint?: string,
): Verification {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  try {
    const values = lines.map((line): unknown => JSON.parse(line));
    const { checkpoint } = checkpointSchema.parse(values.pop());
    const leaves = values.map((value) => new Uint8Array(Buffer.from(leafSchema.parse(value).leaf, 'base64')));
    const verifier = { name: log.name, publicKey: rawPublicKey(log.publicKey), verifyEd25519, sha256 };
    const older = olderCheckpoint === undefined ? {} : { olderCheckpoint };
    return verifyBundle({ leaves, checkpoint, ...older, ...verifier });
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof z.ZodError)) throw error;
    throw new RefusedError(
      'not a complete export: want `{"leaf":…}` lines and a last `{"checkpoint":…}`',
      'countersign.cli.bad_bundle',
      EXIT.usage,
    );
  }
}
