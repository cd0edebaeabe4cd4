import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { FaultError } from '@countersign/kernel';

const TAKE_TRIES = 3;

/** Start time in clock ticks, so that a reused process id is not taken for the one that held the lock. */
function startTime(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}

function isHeld(text: string): boolean {
  const [pidText = '', started = ''] = text.trim().split(' ');
  const pid = Number(pidText);
  if (!Number.isInteger(pid) || pid < 1) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  const now = startTime(pid);
  return now === undefined || started === '' || now === started;
}

function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

/** Moves a lock whose owner is dead aside; a lock that somebody took meanwhile is put back. */
function removeStale(file: string, seen: string): void {
  const aside = `${file}.${process.pid}`;
  try {
    renameSync(file, aside);
    if (readFileSync(aside, 'utf8') !== seen) linkSync(aside, file);
  } catch {
    // Somebody else removed it first.
  }
  rmSync(aside, { force: true });
}

/**
 * Takes the lock of a journal for this process and returns its release. Throws a FaultError while another process lives
 * that holds it: two runners on one journal could run an order twice. A lock left by a killed process is taken over.
 */
export function takeJournalLock(file: string): () => void {
  const own = `${process.pid} ${startTime(process.pid) ?? ''}`;
  for (let attempt = 0; attempt < TAKE_TRIES; attempt += 1) {
    try {
      writeFileSync(file, own, { flag: 'wx', mode: 0o600 });
      return () => {
        if (readOrEmpty(file) === own) rmSync(file, { force: true });
      };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const seen = readOrEmpty(file);
    if (isHeld(seen)) break;
    removeStale(file, seen);
  }
  throw new FaultError(`another runner holds \`${file}\`; stop it first`, {
    code: 'countersign.runner.journal_locked',
  });
}
