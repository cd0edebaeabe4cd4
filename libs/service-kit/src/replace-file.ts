import { closeSync, fsyncSync, openSync, renameSync, writeSync } from 'node:fs';
import path from 'node:path';

function synced(file: string, flags: string, work: (descriptor: number) => void): void {
  const descriptor = openSync(file, flags, 0o600);
  try {
    work(descriptor);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Replaces a file whole or not at all, mode 0600; on return content and name are on the disk. */
export function replaceFile(file: string, content: Uint8Array | string): void {
  const bytes = Buffer.from(content as string);
  const next = `${file}.new`;
  synced(next, 'w', (descriptor) => {
    for (let written = 0; written < bytes.length; ) written += writeSync(descriptor, bytes, written);
  });
  renameSync(next, file);
  synced(path.dirname(file), 'r', () => undefined);
}
