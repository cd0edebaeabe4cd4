import { createHash } from 'node:crypto';
import { lstat, mkdir, readdir, readFile, rm, rmdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { accountUid } from './account.ts';
import { type HeldLocks, holdLocks } from './file-lock.ts';
import { errnoOf, refuse } from './sandbox-error.ts';

/** Names of one folder that must exist while a run lasts, so that nobody can make them. */
export type Guard = { readonly folder: string; readonly names: readonly string[] };

export type HeldGuards = {
  /** Guarded paths; all exist. A name that this account cannot make is none of them. */
  readonly paths: readonly string[];
  /** Gives up the protection; the last run of a folder removes the placeholders that are still empty. */
  readonly release: () => Promise<void>;
};

const LOCK = 'lock';
const keyOf = (text: string): string => createHash('sha256').update(text).digest('hex');
const slotOf = (state: string, folder: string): string => path.join(state, 'guards', keyOf(folder));

const CANNOT_MAKE = new Set(['EACCES', 'EPERM', 'EROFS']);

/** Who cannot make the name cannot make it inside either, unless the folder is their own and they change its mode. */
async function refuseOwn(full: string, error: unknown): Promise<void> {
  const folder = path.dirname(full);
  const isOwn = (await lstat(folder)).uid === accountUid();
  if (!isOwn || errnoOf(error) === 'EROFS') return;
  refuse(
    ERROR_CODES.badRoot,
    `\`${folder}\` is not writable, so its protected names cannot be held; \`chmod u+wx\` it`,
  );
}

async function ensure(slot: string, full: string): Promise<string | undefined> {
  const found = await lstat(full).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  });
  if (found?.isSymbolicLink()) {
    refuse(ERROR_CODES.badRoot, `protected \`${full}\` is a symbolic link; replace it by what it names`);
  }
  if (!found) {
    await writeFile(path.join(slot, keyOf(full)), full, { mode: 0o600 });
    try {
      await mkdir(full, { mode: 0o755 });
    } catch (error) {
      if (CANNOT_MAKE.has(errnoOf(error) ?? '')) {
        await rm(path.join(slot, keyOf(full)), { force: true });
        await refuseOwn(full, error);
        return undefined;
      }
      if (errnoOf(error) !== 'EEXIST') throw error;
    }
  }
  return full;
}

async function removePlaceholders(slot: string): Promise<void> {
  const lock = await holdLocks([path.join(slot, LOCK)], 'exclusive');
  if (!lock) return;
  try {
    for (const name of await readdir(slot)) {
      if (name === LOCK) continue;
      const marker = path.join(slot, name);
      await rmdir(await readFile(marker, 'utf8')).catch(() => undefined);
      await rm(marker, { force: true });
    }
  } finally {
    await lock.release();
  }
}

/**
 * Makes every missing name an empty folder and holds it. INVARIANT: a placeholder is made only under the shared lock of
 * its folder and removed only under the exclusive one, so that no run loses it to another that ends; `rmdir` never
 * removes what somebody filled.
 */
export async function holdGuards(state: string, guards: readonly Guard[]): Promise<HeldGuards> {
  const sorted = [...guards].sort((a, b) => (a.folder < b.folder ? -1 : 1));
  const slots = sorted.map(({ folder }) => slotOf(state, folder));
  for (const slot of slots) await mkdir(slot, { recursive: true, mode: 0o700 });
  const files = slots.map((slot) => path.join(slot, LOCK));
  const locks: HeldLocks | undefined = files.length > 0 ? await holdLocks(files, 'shared') : undefined;
  const release = async () => {
    await locks?.release();
    for (const slot of slots) await removePlaceholders(slot);
  };
  try {
    const paths: string[] = [];
    for (const [index, { folder, names }] of sorted.entries()) {
      for (const name of names) {
        const held = await ensure(slots[index] as string, path.join(folder, name));
        if (held !== undefined) paths.push(held);
      }
    }
    return { paths, release };
  } catch (error) {
    await release();
    throw error;
  }
}

/** Removes what runs left that ended without a chance to, for example by SIGKILL. */
export async function sweepGuards(state: string): Promise<void> {
  const folder = path.join(state, 'guards');
  const slots = await readdir(folder).catch(() => []);
  for (const slot of slots) await removePlaceholders(path.join(folder, slot));
}
