import { Buffer } from 'node:buffer';

/**
 * Joins parts so that no two different lists give the same bytes: each part is preceded by its length, 4 bytes, big endian.
 * Text is encoded as UTF-8; whole numbers as decimal text.
 */
export function lengthPrefixed(tag: string, parts: readonly (Uint8Array | string | number | bigint)[]): Uint8Array {
  const chunks: Buffer[] = [Buffer.from(tag, 'utf8')];
  for (const part of parts) {
    const bytes = part instanceof Uint8Array ? Buffer.from(part) : Buffer.from(String(part), 'utf8');
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    chunks.push(length, bytes);
  }
  return Buffer.concat(chunks);
}
