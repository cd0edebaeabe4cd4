import { mkdirSync, openSync, unlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { linkStatOf } from './look-up.ts';

/** Makes what every run needs of the state folder: an empty file and a private folder for what lives as long as a run. */
export function stateFiles(state: string): { emptyFile: string; spool: string } {
  const emptyFile = path.join(state, 'empty');
  const spool = path.join(state, 'spool');
  mkdirSync(spool, { recursive: true, mode: 0o700 });
  if (!linkStatOf(emptyFile)) writeFileSync(emptyFile, '', { mode: 0o444, flag: 'a' });
  return { emptyFile, spool };
}

/** A fresh read descriptor of the bytes, in a file without a name. */
export function openUnnamed(spool: string, bytes: Uint8Array): number {
  const name = path.join(spool, `filter-${crypto.randomUUID()}`);
  writeFileSync(name, bytes, { mode: 0o600, flag: 'wx' });
  try {
    return openSync(name, 'r');
  } finally {
    unlinkSync(name);
  }
}
