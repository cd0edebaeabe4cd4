import { fromBase64, parseSignedNote, type Verification, verifyBundle } from '@countersign/merkle';
import { sha256 } from '@noble/hashes/sha2.js';

/** Name and raw Ed25519 key of the log. */
export type LogKey = { readonly name: string; readonly publicKey: Uint8Array<ArrayBuffer> };

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
/** First byte of a public user NKey. */
const USER_PREFIX = 20 << 3;

/** CRC-16/XMODEM, which ends an NKey. */
function crc16(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc;
}

/** The raw key of a public NKey (`U…`); undefined when the text is not one. */
export function readPublicKey(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^U[A-Z2-7]{55}$/.test(text)) return undefined;
  const bytes = new Uint8Array(35);
  let value = 0;
  let bits = 0;
  let at = 0;
  for (const letter of text) {
    value = ((value << 5) | LETTERS.indexOf(letter)) & 0xffff;
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    bytes[at] = (value >> bits) & 0xff;
    at += 1;
  }
  const body = bytes.subarray(0, 33);
  const crc = (bytes[33] ?? 0) | ((bytes[34] ?? 0) << 8);
  return body[0] === USER_PREFIX && crc === crc16(body) ? new Uint8Array(body.subarray(1)) : undefined;
}

/** The name of the log that a note is of: its first line. */
export const nameOfNote = (note: string): string => note.slice(0, Math.max(0, note.indexOf('\n')));

/** The leaves and the checkpoint of an export. Throws when a line is neither. */
export function readExport(text: string): { leaves: Uint8Array[]; checkpoint: string } {
  const leaves: Uint8Array[] = [];
  let checkpoint = '';
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const parsed = JSON.parse(line) as { leaf?: unknown; checkpoint?: unknown };
    if (typeof parsed.checkpoint === 'string') checkpoint = parsed.checkpoint;
    else {
      const leaf = typeof parsed.leaf === 'string' ? fromBase64(parsed.leaf) : undefined;
      if (!leaf) throw new Error(`line ${leaves.length + 1} of the export holds no leaf`);
      leaves.push(leaf);
    }
  }
  return { leaves, checkpoint };
}

/** Checks every signature of the notes with the browser's own Ed25519, which answers later than the verifier asks. */
async function checkedSignatures(notes: readonly string[], key: LogKey): Promise<ReadonlySet<string>> {
  const imported = await crypto.subtle.importKey('raw', key.publicKey, 'Ed25519', false, ['verify']);
  const good = new Set<string>();
  for (const note of notes) {
    const parsed = parseSignedNote(note);
    if (!parsed.ok) continue;
    for (const { signature } of parsed.value.signatures) {
      const text = new TextEncoder().encode(parsed.value.text);
      const valid = await crypto.subtle.verify('Ed25519', imported, new Uint8Array(signature), text).catch(() => false);
      if (valid) good.add(`${parsed.value.text}\n${signature.join()}`);
    }
  }
  return good;
}

/** What the verification of an export found, and the checkpoint that it was verified against. */
export type Finding = { readonly verification: Verification; readonly checkpoint: string };

/**
 * Verifies an export in this browser: signature, root, order, chains and the story of every call, and that `pinned`, a
 * checkpoint kept from earlier (or empty), is a prefix. Nothing is taken from the gateway but the bytes under test. Throws
 * when `key` is no public key, the export is malformed, or the pinned checkpoint is of another log.
 */
export async function verifyLog(text: string, key: string, pinned: string): Promise<Finding> {
  const publicKey = readPublicKey(key);
  if (!publicKey) throw new Error('the key is not a public key (`U…`, 56 characters)');
  const { leaves, checkpoint } = readExport(text);
  const older = pinned.trim() === '' ? undefined : `${pinned.trim()}\n`;
  const name = nameOfNote(older ?? checkpoint);
  const good = await checkedSignatures(older === undefined ? [checkpoint] : [checkpoint, older], { name, publicKey });
  const verification = verifyBundle({
    name,
    publicKey,
    sha256,
    verifyEd25519: (_key, message, signature) => good.has(`${new TextDecoder().decode(message)}\n${signature.join()}`),
    leaves,
    checkpoint,
    ...(older === undefined ? {} : { olderCheckpoint: older }),
  });
  return { verification, checkpoint };
}
