import { open, rename, rm } from 'node:fs/promises';
import path from 'node:path';

/** Makes what happened to the names of a folder durable. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  await handle.sync().finally(() => handle.close());
}

/** Writes a file whole or not at all; on return content and name are on disk. */
export async function writeDurable(file: string, content: Uint8Array | string): Promise<void> {
  const next = `${file}.${crypto.randomUUID()}.next`;
  try {
    await using handle = await open(next, 'wx', 0o600);
    await handle.writeFile(content);
    await handle.sync();
    await rename(next, file);
  } catch (error) {
    await rm(next, { force: true });
    throw error;
  }
  await syncFolder(path.dirname(file));
}
