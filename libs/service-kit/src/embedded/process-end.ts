import { setTimeout as delay } from 'node:timers/promises';

const GRACE_MS = 10_000;
const POLL_MS = 50;

/** True while a process with this id exists. */
export function isAlive(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 1) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Asks a process to end, then forces it after 10 s. Resolves when it is gone. */
export async function endProcess(pid: number, signal: NodeJS.Signals): Promise<void> {
  if (!isAlive(pid)) return;
  process.kill(pid, signal);
  for (let waited = 0; isAlive(pid); waited += POLL_MS) {
    if (waited >= GRACE_MS) process.kill(pid, 'SIGKILL');
    await delay(POLL_MS);
  }
}
