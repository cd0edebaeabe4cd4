import { spawn } from 'node:child_process';
import { closeSync, readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { limitedCommand } from '@countersign/sandbox';
import { type PreparedRun, SECCOMP_FD, STATUS_FD } from './prepare-run.ts';

/** Why a run was ended from outside. */
export type StopReason = 'timeout' | 'stop';

/** Three outcomes that are never confused. `sandbox_failed`: the command did not run. */
export type SandboxEnding =
  | { readonly kind: 'exited'; readonly code: number }
  | { readonly kind: 'killed'; readonly reason: StopReason | 'signal'; readonly signal: string }
  | { readonly kind: 'sandbox_failed'; readonly code: string; readonly reason: string };

export type RunningSandbox = {
  readonly ended: Promise<SandboxEnding>;
  /** Asks the command to end, and ends the whole tree after a grace of half a second. */
  readonly stop: (reason: StopReason) => void;
  /** Ends the whole tree at once. */
  readonly kill: () => void;
};

const GRACE_MS = 500;
const MAX_STATUS_CHARS = 65_536;

type Status = { readonly childPid?: number; readonly exitCode?: number };

function parseStatus(text: string): Status {
  const childPid = /"child-pid"\s*:\s*(\d+)/.exec(text)?.[1];
  const exitCode = /"exit-code"\s*:\s*(\d+)/.exec(text)?.[1];
  return {
    ...(childPid === undefined ? {} : { childPid: Number(childPid) }),
    ...(exitCode === undefined ? {} : { exitCode: Number(exitCode) }),
  };
}

function childrenOf(pid: number): number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
    return text.split(' ').filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

function terminate(pid: number): void {
  try {
    process.kill(pid, 'SIGTERM');
  } catch {
    // It ended by itself.
  }
}

function endingOf(status: Status, stopped: StopReason | undefined, signal: NodeJS.Signals | null): SandboxEnding {
  if (stopped) return { kind: 'killed', reason: stopped, signal: signal ?? 'SIGTERM' };
  if (status.exitCode !== undefined) return { kind: 'exited', code: status.exitCode };
  if (signal && status.childPid !== undefined) return { kind: 'killed', reason: 'signal', signal };
  return {
    kind: 'sandbox_failed',
    code: ERROR_CODES.sandboxUnavailable,
    reason: 'bubblewrap ended before the command ran; `countersign sandbox doctor` names the cause',
  };
}

/** Starts a command in a prepared sandbox. The descriptors of `stdio` stay the caller's. */
export async function spawnSandbox(
  prepared: PreparedRun,
  command: readonly string[],
  stdio: readonly ['inherit' | 'ignore', 'inherit' | number, 'inherit' | number],
): Promise<RunningSandbox> {
  const filter = await prepared.openFilter();
  const inherited = [...stdio] as ('inherit' | 'ignore' | number | 'pipe')[];
  inherited[SECCOMP_FD] = filter;
  inherited[STATUS_FD] = 'pipe';
  const child = spawn(prepared.program, [...prepared.args, '--', ...limitedCommand(command)], {
    cwd: '/',
    env: prepared.environment,
    stdio: inherited,
  });
  closeSync(filter);
  let status = '';
  let stopped: StopReason | undefined;
  const channel = child.stdio[STATUS_FD] as Readable | null;
  channel?.setEncoding('utf8').on('data', (chunk: string) => {
    if (status.length < MAX_STATUS_CHARS) status += chunk;
  });
  channel?.on('error', () => undefined);
  const ended = new Promise<SandboxEnding>((resolve) => {
    child.once('error', ({ message: reason }) =>
      resolve({ kind: 'sandbox_failed', code: ERROR_CODES.sandboxUnavailable, reason }),
    );
    child.once('close', (_, signal) => resolve(endingOf(parseStatus(status), stopped, signal)));
  });
  const kill = () => void child.kill('SIGKILL');
  const stop = (reason: StopReason) => {
    if (stopped) return;
    stopped = reason;
    const { childPid } = parseStatus(status);
    if (childPid !== undefined) for (const pid of childrenOf(childPid)) terminate(pid);
    void Promise.race([ended, sleep(GRACE_MS)]).then(kill);
  };
  return { ended, stop, kill };
}
