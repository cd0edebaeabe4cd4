import { readFile, rename, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import path from 'node:path';
import type { Overlay } from '@countersign/sandbox';

const NAME = 'countersign';

function hasEntry(): boolean {
  try {
    return userInfo().username !== '';
  } catch {
    return false;
  }
}

/** Replaces the file in one step, and only when its text differs, so that concurrent runs never see half of one. */
async function keepText(file: string, text: string): Promise<void> {
  if ((await readFile(file, 'utf8').catch(() => undefined)) === text) return;
  const fresh = `${file}.${crypto.randomUUID()}`;
  await writeFile(fresh, text, { mode: 0o444, flag: 'wx' });
  await rename(fresh, file);
}

/**
 * The host's account lists with an entry for this account, when it has none: many programs refuse to work for a uid
 * without a name. The host's own files stay as they are.
 */
export async function accountFiles(state: string, home: string): Promise<readonly Overlay[]> {
  if (hasEntry()) return [];
  const uid = process.getuid?.() ?? 0;
  const gid = process.getgid?.() ?? 0;
  const lines = { passwd: `${NAME}:x:${uid}:${gid}::${home}:/bin/sh\n`, group: `${NAME}:x:${gid}:\n` };
  const overlays: Overlay[] = [];
  for (const [name, line] of Object.entries(lines)) {
    const target = `/etc/${name}`;
    const text = await readFile(target, 'utf8').catch(() => '');
    const source = path.join(state, name);
    await keepText(source, text.endsWith('\n') || text === '' ? text + line : `${text}\n${line}`);
    overlays.push({ source, target });
  }
  return overlays;
}
