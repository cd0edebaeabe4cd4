import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';

/** Largest file that is digested. */
export const MAX_DIGEST_BYTES = 256 * 1024 * 1024;
const CHUNK_BYTES = 1024 * 1024;

/** SHA-256 of text or bytes. */
export const digestOf = (content: Uint8Array | string): Uint8Array => createHash('sha256').update(content).digest();

/** SHA-256 of an open file from its beginning; undefined when it is larger than the bound. */
export async function digestOfFile(handle: FileHandle): Promise<Uint8Array | undefined> {
  const hash = createHash('sha256');
  const buffer = Buffer.alloc(CHUNK_BYTES);
  for (let position = 0; position <= MAX_DIGEST_BYTES; ) {
    const { bytesRead } = await handle.read({ buffer, position });
    if (bytesRead === 0) return hash.digest();
    hash.update(buffer.subarray(0, bytesRead));
    position += bytesRead;
  }
  return undefined;
}
