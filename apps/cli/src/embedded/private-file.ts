import { closeSync, fsyncSync, openSync, renameSync, writeSync } from 'node:fs';

/** Writes `content` to `file` with mode 0600, whole or not at all. */
export function writePrivateFile(file: string, content: string | Uint8Array): void {
  const temporary = `${file}.new`;
  const descriptor = openSync(temporary, 'w', 0o600);
  try {
    const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
    for (let written = 0; written < bytes.length; ) written += writeSync(descriptor, bytes, written);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  renameSync(temporary, file);
}

/** Writes a value as JSON with mode 0600. */
export const writePrivateJson = (file: string, value: unknown): void =>
  writePrivateFile(file, `${JSON.stringify(value, undefined, 2)}\n`);
