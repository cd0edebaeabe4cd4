import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { FaultError } from '@countersign/kernel';
import { commandLineOf, forgetProcesses, type ProcessRecord, recordProcesses } from './orphans.ts';

/** One child of the installation. */
export type ServiceSpec = {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly logFile: string;
  readonly cwd?: string;
  /** Account to run as; absent keeps the supervisor's. */
  readonly account?: { readonly uid: number; readonly gid: number };
  readonly isReady: () => Promise<boolean>;
  readonly readyTimeoutMs: number;
  /** Signal of an orderly stop. */
  readonly stopSignal: NodeJS.Signals;
};

export type Supervisor = {
  /** Starts a service and waits until it is ready; later crashes restart it with growing waits. */
  readonly start: (spec: ServiceSpec) => Promise<void>;
  /** Sends a signal to a running service; nothing when it is not running. */
  readonly signal: (name: string, signal: NodeJS.Signals) => void;
  /** Stops every service, last started first. */
  readonly stopAll: () => Promise<void>;
};

const FIRST_RESTART_MS = 250;
const LONGEST_RESTART_MS = 10_000;
const STEADY_MS = 30_000;
const STOP_DEADLINE_MS = 12_000;
const POLL_MS = 100;

/** A service that ends this often before it was ready will not become ready. */
const MAX_EARLY_ENDS = 3;

type Supervised = {
  readonly spec: ServiceSpec;
  child: ChildProcess;
  restartMs: number;
  startedAtMs: number;
  ends: number;
};

/** In a session of its own, so that Ctrl-C on the terminal reaches only the supervisor, which stops in order. */
function spawnService(spec: ServiceSpec): ChildProcess {
  const log = openSync(spec.logFile, 'a', 0o600);
  try {
    return spawn(spec.command, spec.args, {
      env: spec.env,
      detached: true,
      stdio: ['ignore', log, log],
      ...(spec.cwd === undefined ? {} : { cwd: spec.cwd }),
      ...(spec.account ? { uid: spec.account.uid, gid: spec.account.gid } : {}),
    });
  } finally {
    closeSync(log);
  }
}

/** What a service said last before it ended, followed by `; `; empty when its log does not tell. */
function lastFault(logFile: string): string {
  try {
    const line = readFileSync(logFile, 'utf8').trimEnd().split('\n').at(-1) ?? '';
    const { err } = JSON.parse(line) as { err?: { message?: unknown } };
    return typeof err?.message === 'string' ? `${err.message.slice(0, 500)}; ` : '';
  } catch {
    return '';
  }
}

const hasEnded = (child: ChildProcess): boolean => child.exitCode !== null || child.signalCode !== null;

async function waitForEnd(child: ChildProcess, deadlineMs: number): Promise<boolean> {
  for (let waited = 0; waited < deadlineMs; waited += POLL_MS) {
    if (hasEnded(child) || child.pid === undefined) return true;
    await delay(POLL_MS);
  }
  return hasEnded(child);
}

/**
 * A supervisor that records its children in `pidFile`. `report` is told of crashes and restarts. The wait before a restart
 * doubles up to `longestRestartMs` and begins anew after 30 s of steady work.
 */
export function createSupervisor(
  pidFile: string,
  report: (line: string) => void,
  longestRestartMs = LONGEST_RESTART_MS,
): Supervisor {
  const services: Supervised[] = [];
  let stopping = false;

  const record = () => {
    const children: ProcessRecord[] = services.flatMap(({ spec, child }) => {
      const commandLine = child.pid === undefined ? undefined : commandLineOf(child.pid);
      return child.pid === undefined || commandLine === undefined
        ? []
        : [{ name: spec.name, pid: child.pid, commandLine }];
    });
    recordProcesses(pidFile, children);
  };

  const watch = (service: Supervised) => {
    const { child, spec } = service;
    child.once('error', (error) => report(`${spec.name} cannot be started: ${error.message}`));
    child.once('exit', (code, signal) => {
      if (stopping) return;
      service.ends += 1;
      if (Date.now() - service.startedAtMs > STEADY_MS) service.restartMs = FIRST_RESTART_MS;
      report(`${spec.name} ended (${signal ?? `exit ${code}`}); again in ${service.restartMs} ms, log ${spec.logFile}`);
      setTimeout(() => restart(service), service.restartMs);
      service.restartMs = Math.min(service.restartMs * 2, longestRestartMs);
    });
  };

  const restart = (service: Supervised) => {
    if (stopping) return;
    service.child = spawnService(service.spec);
    service.startedAtMs = Date.now();
    watch(service);
    service.child.once('spawn', record);
  };

  const start = async (spec: ServiceSpec) => {
    const service = { spec, child: spawnService(spec), restartMs: FIRST_RESTART_MS, startedAtMs: Date.now(), ends: 0 };
    services.push(service);
    watch(service);
    service.child.once('spawn', record);
    const deadline = Date.now() + spec.readyTimeoutMs;
    while (!(await spec.isReady())) {
      if (stopping) throw new FaultError('interrupted', { code: 'countersign.cli.interrupted' });
      if (service.ends >= MAX_EARLY_ENDS) {
        const why = lastFault(spec.logFile);
        throw new FaultError(`${spec.name} ends as soon as it starts; ${why}read \`${spec.logFile}\``, {
          code: 'countersign.cli.not_ready',
        });
      }
      if (Date.now() > deadline) {
        throw new FaultError(`${spec.name} is not ready after ${spec.readyTimeoutMs} ms; read \`${spec.logFile}\``, {
          code: 'countersign.cli.not_ready',
        });
      }
      await delay(POLL_MS);
    }
    record();
  };

  const stopAll = async () => {
    stopping = true;
    for (const { spec, child } of services.toReversed()) {
      if (hasEnded(child) || child.pid === undefined) continue;
      child.kill(spec.stopSignal);
      if (await waitForEnd(child, STOP_DEADLINE_MS)) continue;
      report(`${spec.name} did not stop within ${STOP_DEADLINE_MS} ms and is killed`);
      child.kill('SIGKILL');
      await waitForEnd(child, STOP_DEADLINE_MS);
    }
    forgetProcesses(pidFile);
  };

  const signal = (name: string, kind: NodeJS.Signals) => {
    const service = services.find(({ spec }) => spec.name === name);
    if (service && !hasEnded(service.child)) service.child.kill(kind);
  };

  return { start, signal, stopAll };
}
