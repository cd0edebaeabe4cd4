import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import path from 'node:path';
import type { Overlay } from '@countersign/sandbox';
import { statOf } from './look-up.ts';

const NAME = 'countersign';

const known: { hasEntry?: boolean } = {};

/** Asked once for each process: the answer for an account without an entry is slow. */
function hasEntry(): boolean {
  if (known.hasEntry === undefined) {
    try {
      known.hasEntry = userInfo().username !== '';
    } catch {
      known.hasEntry = false;
    }
  }
  return known.hasEntry;
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

/** Replaces the file in one step, and only when its text differs, so that concurrent runs never see half of one. */
function keepText(file: string, text: string): void {
  if (textOf(file) === text) return;
  const fresh = `${file}.${crypto.randomUUID()}`;
  writeFileSync(fresh, text, { mode: 0o444, flag: 'wx' });
  renameSync(fresh, file);
}

const stampOf = (file: string): string => {
  const found = statOf(file);
  return found ? `${found.ino} ${found.size} ${found.mtimeMs}` : '';
};

type Made = { readonly stamp: string; readonly overlays: readonly Overlay[] };
const made = new Map<string, Made>();

/**
 * The host's account lists with an entry for this account, when it has none: many programs refuse to work for a uid
 * without a name. The host's own files stay as they are; copies are made again when those change.
 */
export function accountFiles(state: string, home: string): readonly Overlay[] {
  if (hasEntry()) return [];
  const uid = process.getuid?.() ?? 0;
  const gid = process.getgid?.() ?? 0;
  const lines = { passwd: `${NAME}:x:${uid}:${gid}::${home}:/bin/sh\n`, group: `${NAME}:x:${gid}:\n` };
  const files = Object.keys(lines).flatMap((name) => [`/etc/${name}`, path.join(state, name)]);
  const last = made.get(state);
  if (last?.stamp === files.map(stampOf).join()) return last.overlays;
  const overlays = Object.entries(lines).map(([name, line]) => {
    const target = `/etc/${name}`;
    const text = textOf(target);
    const source = path.join(state, name);
    keepText(source, text.endsWith('\n') || text === '' ? text + line : `${text}\n${line}`);
    return { source, target };
  });
  made.set(state, { stamp: files.map(stampOf).join(), overlays });
  return overlays;
}
