import { linkSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { FaultError } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { isAlive, thisProcess } from '../changes/process-owner.ts';
import { holdLocks } from './file-lock.ts';
import { errnoOf } from './sandbox-error.ts';

const WAIT_MS = 10_000;
const POLL_MS = 2;

function ownerOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

const owned = new Map<string, string>();

/** A file with the name of this process, one for each folder and process. */
function ownFile(folder: string): string {
  const known = owned.get(folder);
  if (known) return known;
  const name = thisProcess();
  const file = path.join(folder, `owner-${name}`);
  writeFileSync(file, name, { mode: 0o600 });
  owned.set(folder, file);
  return file;
}

/** Takes the lock whole, with the name of its owner in it, or not at all. */
function tryTake(file: string, folder: string): boolean {
  try {
    linkSync(ownFile(folder), file);
    return true;
  } catch (error) {
    const code = errnoOf(error);
    if (code !== 'EEXIST' && code !== 'ENOENT') throw error;
    if (code === 'ENOENT') owned.delete(folder);
    return false;
  }
}

/** Removes the files of processes that ended. The caller holds the lock. */
export function clearOwners(folder: string): void {
  for (const name of readdirSync(folder)) {
    if (name.startsWith('owner-') && !isAlive(name.slice('owner-'.length)))
      rmSync(path.join(folder, name), { force: true });
  }
}

/** INVARIANT: only who holds the kernel's lock removes the lock of a dead owner, so that nobody removes a new one for it. */
async function clearDead(file: string, folder: string, dead: string): Promise<void> {
  const kernel = await holdLocks([path.join(folder, 'lock')], 'exclusive');
  if (!kernel) return;
  try {
    if (ownerOf(file) === dead) rmSync(file, { force: true });
  } finally {
    await kernel.release();
  }
}

/**
 * Runs `act`, which is short, while nobody else of this account runs one for the same folder. The lock costs two calls of the
 * file system and no process; what a crash in the middle leaves is cleared by the next.
 */
export async function withBriefLock<T>(folder: string, act: () => T | Promise<T>): Promise<T> {
  const file = path.join(folder, 'busy');
  const deadline = performance.now() + WAIT_MS;
  while (!tryTake(file, folder)) {
    if (performance.now() > deadline) {
      throw new FaultError('a sandbox lock cannot be taken', { code: ERROR_CODES.sandboxUnavailable });
    }
    const owner = ownerOf(file);
    if (owner !== undefined && !isAlive(owner)) await clearDead(file, folder, owner);
    else await sleep(POLL_MS);
  }
  try {
    return await act();
  } finally {
    rmSync(file, { force: true });
  }
}
