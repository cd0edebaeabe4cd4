/** Prefixes of the sortable identifiers, one for each noun. */
export type IdPrefix = 'call' | 'ses' | 'ord' | 'ent' | 'apr' | 'env' | 'grt' | 'rul' | 'pay' | 'tok' | 'jrn' | 'chg';

/** Ten random bytes or more; passed in because this package has no source of randomness. */
export type RandomBytes = (size: number) => Uint8Array;

const hex = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

/**
 * Makes a sortable identifier: the prefix, `_`, and a UUIDv7 (RFC 9562 section 5.7) as 32 hex digits.
 * @param nowMs milliseconds since the Unix epoch; the first 48 bits.
 */
export function makeId(prefix: IdPrefix, nowMs: number, randomBytes: RandomBytes): string {
  const bytes = new Uint8Array(16);
  let time = Math.floor(nowMs);
  for (let index = 5; index >= 0; index -= 1) {
    bytes[index] = time % 256;
    time = Math.floor(time / 256);
  }
  bytes.set(randomBytes(10).subarray(0, 10), 6);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x70;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return `${prefix}_${hex(bytes)}`;
}

const TOKEN = /^[A-Za-z0-9_-]{1,64}$/;

/** True for a text that may stand as one token of a NATS subject: `[A-Za-z0-9_-]{1,64}`. */
export const isSubjectToken = (text: string): boolean => TOKEN.test(text);
