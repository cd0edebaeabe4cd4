import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { closeSync, readFileSync } from 'node:fs';
import { Server, type Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { BRIDGE_FD, type CommandLimits, HOLD_FD, limitedCommand } from '@countersign/sandbox';
import type { EgressProxy } from '../egress/egress-proxy.ts';
import { holdCommand } from './command-hold.ts';
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
  /** Asks the command to end, and ends the whole tree after a grace of half a second. One that is held never runs. */
  readonly stop: (reason: StopReason) => void;
  /** Ends the whole tree at once. */
  readonly kill: () => void;
  /** With `pipe` in `stdio`. */
  readonly stdin: Writable | null;
  readonly stdout: Readable | null;
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

function signalTo(pid: number, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It ended by itself.
  }
}

/**
 * Ends bubblewrap and its first process. One that was not told to go on yet would wait for ever for a bubblewrap that is
 * gone, so that it is ended by name, while bubblewrap stands still.
 */
function killTree(child: ChildProcess): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGSTOP');
  for (const pid of childrenOf(child.pid)) signalTo(pid, 'SIGKILL');
  child.kill('SIGKILL');
}

const NO_WAY_OUT: SandboxEnding = {
  kind: 'sandbox_failed',
  code: ERROR_CODES.sandboxUnavailable,
  reason: 'the way out of the sandbox could not be opened, so the command did not run',
};

const UNTIED: SandboxEnding = {
  kind: 'sandbox_failed',
  code: ERROR_CODES.sandboxUnavailable,
  reason:
    'bubblewrap did not put the command below the system call filter and tie it to its parent, so it did not run; ' +
    'use the bubblewrap of the system and Linux 5.9 or newer',
};

/** Takes the port that the bridge opened inside, before the command starts. */
function takeWayOut(child: ChildProcess, egress: EgressProxy): void {
  child.on('message', (_, handle) => {
    if (!(handle instanceof Server) || egress.opened) return;
    egress.serve(handle);
    child.send('taken', () => undefined);
  });
}

type Seen = { readonly status: Status; readonly stopped: StopReason | undefined; readonly released: boolean };

function endingOf({ status, stopped, released }: Seen, signal: NodeJS.Signals | null): SandboxEnding {
  if (stopped) return { kind: 'killed', reason: stopped, signal: signal ?? 'SIGTERM' };
  if (released && status.exitCode !== undefined) return { kind: 'exited', code: status.exitCode };
  if (released && signal) return { kind: 'killed', reason: 'signal', signal };
  return {
    kind: 'sandbox_failed',
    code: ERROR_CODES.sandboxUnavailable,
    reason: 'bubblewrap ended before the command ran; `countersign sandbox doctor` names the cause',
  };
}

export type SpawnRequest = {
  readonly command: readonly string[];
  /** Descriptors stay the caller's. */
  readonly stdio: readonly [
    'inherit' | 'ignore' | 'pipe',
    'inherit' | 'ignore' | 'pipe' | number,
    'inherit' | 'ignore' | number,
  ];
  /** Needed by the profile `networked`; the caller closes it. */
  readonly egress?: EgressProxy;
  readonly resources?: CommandLimits | undefined;
};

function stdioOf({ stdio, egress }: SpawnRequest, filter: number): StdioOptions {
  const all = [...stdio] as ('inherit' | 'ignore' | 'ipc' | 'pipe' | number)[];
  all[SECCOMP_FD] = filter;
  all[STATUS_FD] = 'pipe';
  all[HOLD_FD] = 'pipe';
  if (egress) all[BRIDGE_FD] = 'ipc';
  return all;
}

/** Starts a command in a prepared sandbox. */
export async function spawnSandbox(prepared: PreparedRun, request: SpawnRequest): Promise<RunningSandbox> {
  const { command, egress, resources: limits } = request;
  const filter = prepared.openFilter();
  const bridged = egress !== undefined;
  const inner = limitedCommand(command, { bridged, held: true, limits });
  const child = spawn(prepared.program, [...prepared.args, '--', ...inner], {
    cwd: '/',
    env: prepared.environment,
    stdio: stdioOf(request, filter),
  });
  closeSync(filter);
  if (egress) takeWayOut(child, egress);
  let status = '';
  let stopped: StopReason | undefined;
  const channel = child.stdio[STATUS_FD] as Readable | null;
  channel?.setEncoding('utf8').on('data', (chunk: string) => {
    if (status.length < MAX_STATUS_CHARS) status += chunk;
  });
  channel?.on('error', () => undefined);
  const kill = () => killTree(child);
  let isUntied = false;
  const hold = holdCommand((child.stdio as unknown[])[HOLD_FD] as Socket, {
    firstProcess: () => parseStatus(status).childPid,
    onUntied: () => {
      isUntied = true;
      kill();
    },
  });
  child.once('exit', hold.refuse);
  const ended = new Promise<SandboxEnding>((resolve) => {
    child.once('error', ({ message: reason }) =>
      resolve({ kind: 'sandbox_failed', code: ERROR_CODES.sandboxUnavailable, reason }),
    );
    child.once('close', (_, signal) => {
      const seen = { status: parseStatus(status), stopped, released: hold.released() };
      const isShut = egress !== undefined && !egress.opened && seen.status.exitCode !== undefined;
      if (stopped) resolve(endingOf(seen, signal));
      else if (isUntied) resolve(UNTIED);
      else resolve(isShut ? NO_WAY_OUT : endingOf(seen, signal));
    });
  });
  const stop = (reason: StopReason) => {
    if (stopped) return;
    stopped = reason;
    hold.refuse();
    const { childPid } = parseStatus(status);
    if (childPid !== undefined) for (const pid of childrenOf(childPid)) signalTo(pid, 'SIGTERM');
    void Promise.race([ended, sleep(GRACE_MS)]).then(kill);
  };
  return { ended, stop, kill, stdin: child.stdin, stdout: child.stdout };
}
