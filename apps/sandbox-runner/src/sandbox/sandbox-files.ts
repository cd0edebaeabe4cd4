import { openSync, unlinkSync } from 'node:fs';
import { lstat, mkdir, open, writeFile } from 'node:fs/promises';
import path from 'node:path';

/** Makes what every run needs of the state folder: an empty file and a private folder for what lives as long as a run. */
export async function stateFiles(state: string): Promise<{ emptyFile: string; spool: string }> {
  const emptyFile = path.join(state, 'empty');
  const spool = path.join(state, 'spool');
  await mkdir(spool, { recursive: true, mode: 0o700 });
  const found = await lstat(emptyFile).catch(() => undefined);
  if (!found) await writeFile(emptyFile, '', { mode: 0o444, flag: 'a' });
  return { emptyFile, spool };
}

/** A fresh read descriptor of the bytes, in a file without a name. */
export async function openUnnamed(spool: string, bytes: Uint8Array): Promise<number> {
  const name = path.join(spool, `filter-${crypto.randomUUID()}`);
  await using handle = await open(name, 'wx', 0o600);
  await handle.writeFile(bytes);
  try {
    return openSync(name, 'r');
  } finally {
    unlinkSync(name);
  }
}
