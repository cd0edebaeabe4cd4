import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { rmdir } from 'node:fs/promises';
import path from 'node:path';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { isAlive, thisProcess } from '../changes/process-owner.ts';
import { accountUid } from './account.ts';
import { clearOwners, withBriefLock } from './brief-lock.ts';
import { errnoOf, refuse } from './sandbox-error.ts';

/** Names of one folder that must exist while a run lasts, so that nobody can make them. */
export type Guard = { readonly folder: string; readonly names: readonly string[] };

export type HeldGuards = {
  /** Guarded paths; all exist. A name that this account cannot make is none of them. */
  readonly paths: readonly string[];
  /** Gives up the protection; the last run of a folder removes the placeholders that are still empty. */
  readonly release: () => Promise<void>;
};

const RUN = 'run-';
const CANNOT_MAKE = new Set(['EACCES', 'EPERM', 'EROFS']);
const keyOf = (text: string): string => createHash('sha256').update(text).digest('hex');
const rootOf = (state: string): string => path.join(state, 'guards');

/** Who cannot make the name cannot make it inside either, unless the folder is their own and they change its mode. */
function refuseOwn(full: string, error: unknown): void {
  const folder = path.dirname(full);
  if (lstatSync(folder).uid !== accountUid() || errnoOf(error) === 'EROFS') return;
  refuse(
    ERROR_CODES.badRoot,
    `\`${folder}\` is not writable, so its protected names cannot be held; \`chmod u+wx\` it`,
  );
}

function ensure(slot: string, full: string): string | undefined {
  const found = lstatSync(full, { throwIfNoEntry: false });
  if (found?.isSymbolicLink()) {
    refuse(ERROR_CODES.badRoot, `protected \`${full}\` is a symbolic link; replace it by what it names`);
  }
  if (found) return full;
  const marker = path.join(slot, keyOf(full));
  writeFileSync(marker, full, { mode: 0o600 });
  try {
    mkdirSync(full, { mode: 0o755 });
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return full;
    rmSync(marker, { force: true });
    if (!CANNOT_MAKE.has(errnoOf(error) ?? '')) throw error;
    refuseOwn(full, error);
    return undefined;
  }
  return full;
}

function contentOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

/** Whether a run of a living process holds the slot; files of dead ones are removed. */
function isHeld(slot: string, names: readonly string[]): boolean {
  const runs = names.filter((name) => name.startsWith(RUN)).map((name) => path.join(slot, name));
  const dead = runs.filter((file) => !isAlive(contentOf(file)));
  for (const file of dead) rmSync(file, { force: true });
  return dead.length < runs.length;
}

/** What somebody filled or removed stays as it is. */
const removeEmpty = (folder: string): Promise<void> => rmdir(folder).catch(() => undefined);

async function removePlaceholder(marker: string): Promise<void> {
  await removeEmpty(contentOf(marker));
  rmSync(marker, { force: true });
}

/** Removals wait for the disk, so they wait at the same time. */
async function giveUp(slot: string, run: string | undefined): Promise<void> {
  if (run) rmSync(path.join(slot, run), { force: true });
  let names: string[];
  try {
    names = readdirSync(slot);
  } catch {
    return;
  }
  if (isHeld(slot, names)) return;
  const markers = names.filter((name) => !name.startsWith(RUN)).map((name) => path.join(slot, name));
  await Promise.all(markers.map(removePlaceholder));
}

/**
 * Makes every missing name an empty folder and holds it. INVARIANT: placeholders are made and removed under one lock, and
 * removed only when no run of a living process holds their folder; `rmdir` never removes what somebody filled.
 */
export async function holdGuards(state: string, guards: readonly Guard[]): Promise<HeldGuards> {
  const root = rootOf(state);
  mkdirSync(root, { recursive: true, mode: 0o700 });
  const run = `${RUN}${crypto.randomUUID()}`;
  const slots = guards.map(({ folder }) => path.join(root, keyOf(folder)));
  const release = () =>
    withBriefLock(root, async () => {
      await Promise.all(slots.map((slot) => giveUp(slot, run)));
    });
  try {
    const paths = await withBriefLock(root, () =>
      guards.flatMap(({ folder, names }, index) => {
        const slot = slots[index] as string;
        mkdirSync(slot, { recursive: true, mode: 0o700 });
        writeFileSync(path.join(slot, run), thisProcess(), { mode: 0o600 });
        return names.flatMap((name) => ensure(slot, path.join(folder, name)) ?? []);
      }),
    );
    return { paths, release };
  } catch (error) {
    await release();
    throw error;
  }
}

/** Removes what runs left that ended without a chance to, for example by SIGKILL. */
export async function sweepGuards(state: string): Promise<void> {
  const root = rootOf(state);
  mkdirSync(root, { recursive: true, mode: 0o700 });
  await withBriefLock(root, async () => {
    const slots = readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    for (const { name } of slots) {
      await giveUp(path.join(root, name), undefined);
      await removeEmpty(path.join(root, name));
    }
    clearOwners(root);
  });
}
