import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';

const RETRY_MS = 1;
/** How long after the shell is there the first process may take to tie itself, milliseconds. */
const TIE_MS = 5_000;
const FIELD = /^(Seccomp|Seccomp_filters):\s*(\d+)$/gm;

type Filters = { readonly mode: number; readonly count: number | undefined };

function filtersOf(pid: number | 'self'): Filters | undefined {
  try {
    const fields = new Map<string, number>();
    for (const [, name = '', value] of readFileSync(`/proc/${pid}/status`, 'utf8').matchAll(FIELD)) {
      fields.set(name, Number(value));
    }
    return { mode: fields.get('Seccomp') ?? 0, count: fields.get('Seccomp_filters') };
  } catch {
    return undefined;
  }
}

/**
 * Whether the first process of the sandbox dies with bubblewrap: it asks the kernel for that just before it takes the
 * system call filter, so that a filter more than this process has is the proof. Kernels before 5.9 tell no number; there
 * only the mode shows it, which says nothing where this process is filtered itself.
 */
function isTied(pid: number): boolean {
  const [own, its] = [filtersOf('self'), filtersOf(pid)];
  if (!own || !its) return false;
  if (own.count !== undefined && its.count !== undefined) return its.count > own.count;
  return own.mode === 0 && its.mode !== 0;
}

export type CommandHold = {
  /** True once the command was let go; never before that did it run. */
  readonly released: () => boolean;
  /** Never lets the command go, unless it went. */
  readonly refuse: () => void;
};

/**
 * Holds the command inside until the whole tree is sure to end with this process. The command's shell says that it is
 * there, waits for a line, and ends at the end of the channel. `onUntied` is told when the tie does not come.
 * INVARIANT: bubblewrap reports the first process after it tied itself to this one; that process ties itself to bubblewrap
 * later. The line is sent when both were seen, so that no command outlives this process, whenever it is killed.
 */
export function holdCommand(
  channel: Socket,
  { firstProcess, onUntied }: { firstProcess: () => number | undefined; onUntied: () => void },
): CommandHold {
  let deadline = Number.POSITIVE_INFINITY;
  let state: 'held' | 'released' | 'refused' = 'held';
  const refuse = () => {
    if (state === 'held') state = 'refused';
    channel.destroy();
  };
  const letGo = () => {
    if (state !== 'held') return;
    const pid = firstProcess();
    if (pid === undefined || !isTied(pid)) {
      if (performance.now() > deadline) onUntied();
      else setTimeout(letGo, RETRY_MS);
      return;
    }
    state = 'released';
    channel.end('\n');
  };
  channel.once('data', () => {
    deadline = performance.now() + TIE_MS;
    letGo();
  });
  channel.on('error', () => undefined);
  return { released: () => state === 'released', refuse };
}
