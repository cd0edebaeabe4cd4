import { readdirSync, readFileSync } from 'node:fs';
import { accountUid } from './account.ts';
import { statOf } from './look-up.ts';

const NAME = 'bwrap';

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

const fieldOf = (status: string, name: string): string => new RegExp(`^${name}:\\s*(.*)$`, 'm').exec(status)?.[1] ?? '';

/** Whether the process is the first one of a sandbox of ours that bubblewrap left before it let it go on. */
function isIdle(pid: string, state: string): boolean {
  if (statOf(`/proc/${pid}`)?.uid !== accountUid()) return false;
  const status = textOf(`/proc/${pid}/status`);
  const isFirst = fieldOf(status, 'NSpid').split(/\s+/).at(-1) === '1';
  if (!isFirst || fieldOf(status, 'Name') !== NAME) return false;
  const isOurs = textOf(`/proc/${pid}/cmdline`).includes(`\0--tmpfs\0${state}\0`);
  return isOurs && textOf(`/proc/${fieldOf(status, 'PPid')}/comm`).trim() !== NAME;
}

/**
 * Ends what a killed starter left: the first process of a sandbox whose bubblewrap died before it let it go on, which holds
 * no command and waits for ever. `state` is the folder of the sandboxes of this account, which their arguments name. One
 * whose bubblewrap lives is its child and is left alone. Gives the number of ended processes.
 */
export function sweepIdle(state: string): number {
  const idle = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && isIdle(name, state));
  for (const pid of idle) {
    try {
      process.kill(Number(pid), 'SIGKILL');
    } catch {
      // It ended by itself.
    }
  }
  return idle.length;
}
