import { Buffer } from 'node:buffer';
import type { webcrypto } from 'node:crypto';
import { Aes256Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from '@hpke/core';

/** RFC 9180 base mode: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM. Sealed = 32-byte encapsulated key ‖ ciphertext. */
const suite = new CipherSuite({ kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes256Gcm() });
const INFO = new TextEncoder().encode('countersign/seal/v1');
const ENCAPSULATED_BYTES = 32;

const exact = (bytes: Uint8Array): ArrayBuffer => new Uint8Array(bytes).buffer;
const decode = (text: string): ArrayBuffer => exact(Buffer.from(text, 'base64url'));

/** Fresh X25519 keys, base64url. */
export async function generateSealKeyPair(): Promise<{ privateKey: string; publicKey: string }> {
  const pair = await suite.kem.generateKeyPair();
  const text = async (key: webcrypto.CryptoKey, read: (key: webcrypto.CryptoKey) => Promise<ArrayBuffer>) =>
    Buffer.from(await read(key)).toString('base64url');
  return {
    privateKey: await text(pair.privateKey, (key) => suite.kem.serializePrivateKey(key)),
    publicKey: await text(pair.publicKey, (key) => suite.kem.serializePublicKey(key)),
  };
}

/**
 * Seals `plaintext` so that only the holder of the private key opens it, and only under the same `aad`.
 * @param sealPublicKey X25519, base64url. Rejects when it is not a valid key.
 */
export async function sealTo(sealPublicKey: string, plaintext: Uint8Array, aad: string): Promise<Uint8Array> {
  const recipientPublicKey = await suite.kem.deserializePublicKey(decode(sealPublicKey));
  const sender = await suite.createSenderContext({ recipientPublicKey, info: exact(INFO) });
  const ciphertext = await sender.seal(exact(plaintext), exact(new TextEncoder().encode(aad)));
  return Buffer.concat([Buffer.from(sender.enc), Buffer.from(ciphertext)]);
}

/** Opens a sealed text. Rejects when key, `aad` or any byte differs. */
export async function openSealed(sealPrivateKey: string, sealed: Uint8Array, aad: string): Promise<Uint8Array> {
  if (sealed.length <= ENCAPSULATED_BYTES) throw new TypeError('sealed payload is too short');
  const recipientKey = await suite.kem.deserializePrivateKey(decode(sealPrivateKey));
  const recipient = await suite.createRecipientContext({
    recipientKey,
    enc: exact(sealed.subarray(0, ENCAPSULATED_BYTES)),
    info: exact(INFO),
  });
  const plaintext = await recipient.open(
    exact(sealed.subarray(ENCAPSULATED_BYTES)),
    exact(new TextEncoder().encode(aad)),
  );
  return new Uint8Array(plaintext);
}
