import { Buffer } from 'node:buffer';
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import { createUser, fromSeed, Prefix } from '@nats-io/nkeys';
import { generateSealKeyPair, openSealed } from './seal.ts';

/** Keys of one member as kept in a file of mode 0600. Secret. */
export type IdentityFile = {
  readonly role: string;
  readonly id: string;
  /** NKey user seed, `SU…`. */
  readonly seed: string;
  /** NKey public key, `U…`. */
  readonly publicKey: string;
  /** X25519, base64url, 32 bytes. */
  readonly sealPrivateKey: string;
  readonly sealPublicKey: string;
  /** Private keys of before or after a rotation: they open what is sealed to them and sign nothing. */
  readonly alsoOpens?: readonly string[];
};

/** Keys of one member, ready for use. */
export type Identity = {
  readonly role: string;
  readonly id: string;
  readonly publicKey: string;
  readonly sealPublicKey: string;
  readonly seed: string;
  /** Ed25519 signature (RFC 8032), 64 bytes. */
  readonly sign: (data: Uint8Array) => Uint8Array;
  /** Opens what was sealed to this identity under `aad`. Rejects when it was not. */
  readonly open: (sealed: Uint8Array, aad: string) => Promise<Uint8Array>;
};

const PKCS8_ED25519 = Buffer.from('302e020100300506032b657004220420', 'hex');
const SPKI_ED25519 = Buffer.from('302a300506032b6570032100', 'hex');
const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
const NKEY_PATTERN = /^[A-Z2-7]{56}$/;

function decodeBase32(text: string): Buffer {
  let bits = 0;
  let value = 0;
  const out: number[] = [];
  for (const char of text) {
    const digit = BASE32.indexOf(char);
    if (digit < 0) throw new TypeError('not base32');
    value = ((value << 5) | digit) & 0xffff;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      out.push((value >> bits) & 0xff);
    }
  }
  return Buffer.from(out);
}

function crc16(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc;
}

/**
 * Raw Ed25519 key of a public user NKey (`U…`): 32 bytes. Throws a TypeError for anything else.
 * Layout: prefix byte, key, CRC-16/XMODEM little endian, base32 without padding (nats-io/nkeys).
 */
export function rawPublicKey(nkey: string): Uint8Array {
  if (!NKEY_PATTERN.test(nkey)) throw new TypeError('not a public NKey');
  const bytes = decodeBase32(nkey);
  const body = bytes.subarray(0, 33);
  if (bytes.length !== 35 || body[0] !== Prefix.User || crc16(body) !== bytes.readUInt16LE(33)) {
    throw new TypeError('not a public user NKey');
  }
  return new Uint8Array(body.subarray(1));
}

const keyCache = new Map<string, KeyObject>();
const KEY_CACHE_LIMIT = 4096;

function publicKeyObject(nkey: string): KeyObject {
  const cached = keyCache.get(nkey);
  if (cached) return cached;
  const key = createPublicKey({ key: Buffer.concat([SPKI_ED25519, rawPublicKey(nkey)]), format: 'der', type: 'spki' });
  if (keyCache.size >= KEY_CACHE_LIMIT) keyCache.clear();
  keyCache.set(nkey, key);
  return key;
}

/** True when `signature` is an Ed25519 signature by `nkey` over `data`; false for every malformed input. */
export function verifySignature(nkey: string, data: Uint8Array, signature: Uint8Array): boolean {
  try {
    return signature.length === 64 && verify(null, data, publicKeyObject(nkey), signature);
  } catch {
    return false;
  }
}

/** Makes fresh keys for a member. */
export async function createIdentity(role: string, id: string): Promise<IdentityFile> {
  const pair = createUser();
  const seal = await generateSealKeyPair();
  return {
    role,
    id,
    seed: new TextDecoder().decode(pair.getSeed()),
    publicKey: pair.getPublicKey(),
    sealPrivateKey: seal.privateKey,
    sealPublicKey: seal.publicKey,
  };
}

async function openWithAny(keys: readonly string[], sealed: Uint8Array, aad: string): Promise<Uint8Array> {
  const [key = '', ...others] = keys;
  const opened = openSealed(key, sealed, aad);
  return others.length === 0 ? opened : opened.catch(() => openWithAny(others, sealed, aad));
}

/** Loads keys. Throws when the seed is not a user seed or does not belong to the public key. */
export async function openIdentity(file: IdentityFile): Promise<Identity> {
  const pair = fromSeed(new TextEncoder().encode(file.seed));
  if (pair.getPublicKey() !== file.publicKey)
    throw new TypeError(`identity \`${file.id}\`: seed and public key differ`);
  const rawSeed = decodeBase32(file.seed).subarray(2, 34);
  const key = createPrivateKey({ key: Buffer.concat([PKCS8_ED25519, rawSeed]), format: 'der', type: 'pkcs8' });
  return {
    role: file.role,
    id: file.id,
    publicKey: file.publicKey,
    sealPublicKey: file.sealPublicKey,
    seed: file.seed,
    sign: (data) => new Uint8Array(sign(null, data, key)),
    open: (sealed, aad) => openWithAny([file.sealPrivateKey, ...(file.alsoOpens ?? [])], sealed, aad),
  };
}
