import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { FaultError } from '@countersign/kernel';

const FLOCK = '/usr/bin/flock';
const HOLD = ['/bin/sh', '-c', 'echo held; exec /bin/cat >/dev/null'];

/** Locks that are held until `release`, or until this process ends in any way. */
export type HeldLocks = { readonly release: () => Promise<void> };

/**
 * Takes every lock, waiting for shared ones; an exclusive one that is not free at once gives undefined. The kernel owns
 * the locks: a process that dies leaves none behind.
 */
export async function holdLocks(
  files: readonly string[],
  mode: 'shared' | 'exclusive',
): Promise<HeldLocks | undefined> {
  const options = mode === 'shared' ? ['--shared'] : ['--exclusive', '--nonblock'];
  const chain = files.flatMap((file) => [FLOCK, ...options, '--no-fork', file]);
  const [program, ...args] = [...chain, ...HOLD] as [string, ...string[]];
  const child = spawn(program, args, { env: {}, cwd: '/', stdio: ['pipe', 'pipe', 'ignore'] });
  child.stdin.on('error', () => undefined);
  const ended = once(child, 'close');
  const outcome = await Promise.race([once(child.stdout, 'data').then(() => 'held' as const), ended]);
  if (outcome !== 'held') {
    if (mode === 'exclusive' && outcome[0] === 1) return undefined;
    throw new FaultError('a sandbox lock cannot be taken', { code: 'countersign.runner.sandbox_unavailable' });
  }
  return {
    release: async () => {
      child.stdin.end();
      await ended;
    },
  };
}
