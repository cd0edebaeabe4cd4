import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { guardedCommand, type Places, sandboxEnvironment, WATCH_FD } from '@countersign/sandbox';
import { refuseHostRoot } from './account.ts';
import type { BashRequest } from './execute.ts';
import { findPlaces } from './find-places.ts';
import { deniedHost, deniedPath } from './named-in-command.ts';
import { parsePathRules } from './path-rules.ts';
import { supportedProfile, workingFolder } from './prepare-run.ts';
import { privatePaths } from './private-paths.ts';
import { refuse } from './sandbox-error.ts';
import { stateFiles } from './sandbox-files.ts';
import type { RunningSandbox, SandboxEnding, StopReason } from './spawn-sandbox.ts';

type Variables = Readonly<Record<string, string | undefined>>;

const GRACE_MS = 500;

function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

/** Why this account may not use the app-guard: it could read what every sandbox masks. Empty when it may. */
export function appGuardRefusal(environment: Variables, home: string): string {
  const open = privatePaths(environment, home).find(isReadable);
  if (open === undefined) return '';
  return `its account can read \`${open}\`, and nothing would mask that; run commands as an account of their own`;
}

/** A command that was checked and may start. */
export type GuardedRun = {
  readonly places: Places;
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly spool: string;
};

/**
 * Checks the place of a command and every path and host that it plainly names. Throws a SandboxRefusal. SECURITY: nothing
 * holds the command to these rules once it runs; the gateway judged it, and says so to whoever approved it.
 */
export async function prepareGuarded(request: BashRequest): Promise<GuardedRun> {
  refuseHostRoot();
  const profile = supportedProfile(request.profile, request.hardened);
  if (request.hardened) refuse(ERROR_CODES.sandboxUnavailable, 'hardened mode runs commands only in a sandbox');
  const places = await findPlaces({ ...request, profile });
  const open = appGuardRefusal(request.environment, places.home);
  if (open !== '') refuse(ERROR_CODES.sandboxUnavailable, `backend \`app-guard\` is off: ${open}`);
  const cwd = await workingFolder(request.cwd, places.project);
  const text = typeof request.command === 'string' ? request.command : request.command.join(' ');
  const sources = [request.masks, request.denyWrite ?? []];
  const path = deniedPath(
    text,
    sources.map((source) => parsePathRules(source, places)),
    { cwd, home: places.home },
  );
  if (path !== undefined) {
    refuse(
      ERROR_CODES.privatePath,
      `\`${path.slice(0, 200)}\` is denied, and the app-guard cannot hold a command off it`,
    );
  }
  const host =
    profile === 'full-access' ? undefined : deniedHost(text, profile === 'networked' ? (request.hosts ?? []) : []);
  if (host !== undefined) {
    refuse(ERROR_CODES.profileRefused, `host \`${host.slice(0, 200)}\` is not one that profile \`${profile}\` reaches`);
  }
  const names = request.environmentNames;
  const environment = sandboxEnvironment(
    { ...request.environment, ...request.passed },
    // There is no way out to name: the command has the network of its host.
    { places, profile: profile === 'networked' ? 'workspace-write' : profile, ...(names ? { names } : {}) },
  );
  return { places, cwd, environment, spool: stateFiles(places.state).spool };
}

function signalGroup(pid: number | undefined, signal: 'SIGTERM' | 'SIGKILL'): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // The group is gone.
  }
}

/**
 * Starts the command as the leader of a session of its own. INVARIANT: its process group ends with it, with a stop and with
 * this process, because a watcher in the group waits for the end of a pipe that only this process holds.
 */
export function spawnGuarded(
  { cwd, environment }: GuardedRun,
  { command, resources }: BashRequest,
  [stdout, stderr]: readonly [number, number],
): RunningSandbox {
  const argv = typeof command === 'string' ? ['/bin/sh', '-c', command] : command;
  const [program, ...args] = guardedCommand(argv, resources) as [string, ...string[]];
  const child = spawn(program, args, {
    cwd,
    env: environment,
    detached: true,
    stdio: ['ignore', stdout, stderr, ...Array(WATCH_FD - 3).fill('ignore'), 'pipe'],
  });
  const watch = child.stdio[WATCH_FD] as unknown as Readable & Writable;
  watch.on('error', () => undefined);
  let stopped: StopReason | undefined;
  const kill = () => {
    // The leader may have ended meanwhile, so that its number belongs to the watcher's group alone: that ends by the pipe.
    if (child.exitCode === null && child.signalCode === null) signalGroup(child.pid, 'SIGKILL');
    watch.destroy();
  };
  const ended = new Promise<SandboxEnding>((resolve) => {
    child.once('error', ({ message: reason }) =>
      resolve({ kind: 'sandbox_failed', code: ERROR_CODES.sandboxUnavailable, reason }),
    );
    child.once('exit', (code, signal) => {
      watch.destroy();
      if (stopped) resolve({ kind: 'killed', reason: stopped, signal: signal ?? 'SIGTERM' });
      else if (signal) resolve({ kind: 'killed', reason: 'signal', signal });
      else resolve({ kind: 'exited', code: code ?? 0 });
    });
  });
  const stop = (reason: StopReason) => {
    if (stopped || child.exitCode !== null || child.signalCode !== null) return;
    stopped = reason;
    signalGroup(child.pid, 'SIGTERM');
    void Promise.race([once(child, 'exit'), sleep(GRACE_MS)]).then(kill);
  };
  return { ended, stop, kill, stdin: null, stdout: null };
}
