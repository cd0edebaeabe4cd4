import { type FileHandle, open } from 'node:fs/promises';
import { ocsfOf } from './ocsf.ts';
import type { Sink, StreamEntry } from './stream-entry.ts';

/** Forms of one line. */
export const LINE_FORMATS = ['json', 'ocsf'] as const;
export type LineFormat = (typeof LINE_FORMATS)[number];

/** One line for an entry: the exact entry under its index and leaf hash, or an OCSF event. */
export function lineOf(item: StreamEntry, format: LineFormat): string {
  if (format === 'ocsf') return `${JSON.stringify(ocsfOf(item))}\n`;
  return `{"index":${item.entry.index},"leaf_hash":"${item.leafHash}","entry":${item.text}}\n`;
}

/** Appends lines to a file, mode 0600, and syncs it before a batch counts as taken. */
export function fileSink(path: string, format: LineFormat): Sink {
  let file: FileHandle | undefined;
  return {
    send: async (entries) => {
      file ??= await open(path, 'a', 0o600);
      try {
        await file.appendFile(entries.map((entry) => lineOf(entry, format)).join(''));
        await file.datasync();
      } catch (error) {
        await file.close().catch(() => undefined);
        file = undefined;
        throw error;
      }
    },
    close: async () => {
      await file?.close();
      file = undefined;
    },
  };
}
