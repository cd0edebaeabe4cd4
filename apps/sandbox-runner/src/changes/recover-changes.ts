import { Buffer } from 'node:buffer';
import { rm } from 'node:fs/promises';
import { SandboxRefusal } from '../sandbox/sandbox-error.ts';
import { presentFile } from '../tools/present-file.ts';
import type { ChangeStore, PendingChange } from './change-store.ts';
import type { FileChange, FileState } from './file-change.ts';
import { isAlive } from './process-owner.ts';

/** Hex digest of what lies there now, null for nothing, undefined for what is no plain file any more. */
async function digestNow(path: string): Promise<string | null | undefined> {
  try {
    const present = await presentFile(path, path);
    return present ? Buffer.from(present.digest).toString('hex') : null;
  } catch (error) {
    if (error instanceof SandboxRefusal) return undefined;
    throw error;
  }
}

const is = (now: string | null | undefined, state: FileState | null): boolean =>
  state === null ? now === null : now === state.digest;

async function settle(store: ChangeStore, { change, temporary }: PendingChange): Promise<FileChange | undefined> {
  const now = await digestNow(change.path);
  await rm(temporary, { force: true });
  if (is(now, change.before) && !is(now, change.after)) {
    await store.forget(change.id);
    return undefined;
  }
  const settled = is(now, change.after) ? change : { ...change, uncertain: true };
  await store.confirm(settled);
  return settled;
}

/**
 * Settles the changes that an ended process announced and did not confirm, and removes its half-made files. Returns those
 * that took place; `uncertain` where the file is neither as before nor as after.
 */
export async function recoverChanges(store: ChangeStore): Promise<readonly FileChange[]> {
  const settled: FileChange[] = [];
  for (const pending of await store.pending()) {
    if (isAlive(pending.owner)) continue;
    const change = await settle(store, pending);
    if (change) settled.push(change);
  }
  return settled;
}
