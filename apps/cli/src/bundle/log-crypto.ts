import { Buffer } from 'node:buffer';
import { createPublicKey, hash, type KeyObject, verify } from 'node:crypto';
import type { NoteVerifier } from '@countersign/merkle';
import { rawPublicKey } from '@countersign/protocol';

/** Name and public key (`U…`) of a log, as the auditor knows them. */
export type LogKey = { readonly publicKey: string; readonly name: string };

export const sha256 = (data: Uint8Array): Uint8Array => hash('sha256', data, 'buffer');

const keyOf = (publicKey: Uint8Array): KeyObject =>
  createPublicKey({
    key: { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(publicKey).toString('base64url') },
    format: 'jwk',
  });

/** False also for a key that is none. */
export const verifyEd25519 = (publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean => {
  try {
    return verify(null, message, keyOf(publicKey), signature);
  } catch {
    return false;
  }
};

/** Verifier of the log's notes. Throws for a key that is no NKey. */
export const verifierOf = (log: LogKey): NoteVerifier => ({
  name: log.name,
  publicKey: rawPublicKey(log.publicKey),
  verifyEd25519,
  sha256,
});
