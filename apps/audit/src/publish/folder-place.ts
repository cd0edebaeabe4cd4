import { randomUUID } from 'node:crypto';
import { link, mkdir, open, readFile, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { equalBytes } from '@countersign/merkle';
import { replaceFile } from '@countersign/service-kit';
import { CHECKPOINT_NAME, otherBytes, type Place } from './place.ts';

const isCode = (error: unknown, code: string): boolean => (error as NodeJS.ErrnoException).code === code;

async function synced(file: string, flags: string, bytes?: Uint8Array): Promise<void> {
  const handle = await open(file, flags, 0o644);
  try {
    if (bytes) await handle.writeFile(bytes);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** A folder that is there, such as one of another machine that is mounted here. A file appears whole or not at all. */
export function folderPlace(folder: string): Place {
  const checkpointFile = path.join(folder, CHECKPOINT_NAME);
  const read = () =>
    readFile(checkpointFile, 'utf8').catch((error: unknown) => {
      if (isCode(error, 'ENOENT')) return undefined;
      throw error;
    });
  let known: string | undefined;
  const present = async () => {
    const found = await stat(folder).catch(() => undefined);
    if (!found?.isDirectory()) throw new Error(`folder \`${folder}\` is not there; make or mount it`);
  };
  return {
    takesTiles: true,
    keep: async (name, bytes) => {
      await present();
      const file = path.join(folder, name);
      await mkdir(path.dirname(file), { recursive: true });
      const whole = `${file}.${randomUUID()}`;
      try {
        await synced(whole, 'wx', bytes);
        await link(whole, file);
        await synced(path.dirname(file), 'r');
      } catch (error) {
        if (!isCode(error, 'EEXIST')) throw error;
        if (!equalBytes(await readFile(file), bytes)) throw otherBytes(name);
      } finally {
        await rm(whole, { force: true });
      }
    },
    checkpoint: async () => {
      known = await read();
      return known;
    },
    replaceCheckpoint: async (note) => {
      if ((await read()) !== known) throw new Error('another checkpoint came between');
      await present();
      replaceFile(checkpointFile, note);
      known = note;
    },
    close: async () => undefined,
  };
}
