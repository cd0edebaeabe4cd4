import { lstat, opendir, readFile, realpath } from 'node:fs/promises';
import path from 'node:path';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { refuse } from './sandbox-error.ts';

const MAX_ENTRIES = 50_000;
const MAX_DEPTH = 6;

async function isSocket(full: string): Promise<boolean> {
  return (await lstat(full).catch(() => undefined))?.isSocket() ?? false;
}

/** Socket files that the kernel knows in this network namespace. */
async function boundSockets(): Promise<string[]> {
  const table = await readFile('/proc/net/unix', 'utf8');
  const named = table.split('\n').flatMap((line) => / (\/.*)$/.exec(line)?.[1] ?? []);
  const real = await Promise.all([...new Set(named)].map((name) => realpath(name).catch(() => '')));
  return real.filter(path.isAbsolute);
}

/** Socket files below the folders: those of other network namespaces are in no table of ours. */
async function foundSockets(folders: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  const waiting = folders.map((folder) => ({ folder, depth: 0 }));
  let entries = 0;
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { folder, depth } = next;
    const opened = await opendir(folder).catch(() => undefined);
    if (!opened) continue;
    for await (const entry of opened) {
      entries += 1;
      if (entries > MAX_ENTRIES) {
        refuse(ERROR_CODES.sandboxUnavailable, `\`${folder}\` and its neighbours hold too much to look for sockets in`);
      }
      const full = path.join(folder, entry.name);
      if (entry.isSocket()) found.push(full);
      else if (entry.isDirectory() && depth < MAX_DEPTH) waiting.push({ folder: full, depth: depth + 1 });
    }
  }
  return found;
}

/** Every socket file that somebody may listen on now. One that is made while the command runs is not among them. */
export async function socketMasks(folders: readonly string[]): Promise<readonly string[]> {
  const all = new Set([...(await boundSockets()), ...(await foundSockets(folders))]);
  const kept = await Promise.all([...all].map(async (full) => ((await isSocket(full)) ? [full] : [])));
  return kept.flat();
}
