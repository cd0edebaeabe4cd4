import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { FaultError } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import type { Backend, CommandLimits } from '@countersign/sandbox';
import { asAccount, type RunAccount } from '../sandbox/run-account.ts';
import type { SearchProvider } from '../web/search-provider.ts';
import type { CommandEnding, HostTools, LiveCommand, ToolLimits } from '../work/host-tools.ts';
import { Backends } from './backends.ts';
import type { LauncherReply, LauncherRequest, LauncherWork, SentLimits, WorkKind } from './messages.ts';

export type SandboxedToolsOptions = {
  /** Account of every command and file tool; null runs them as this process's own, which may not be root. */
  readonly runAs: RunAccount | null;
  /** Folder of the running code. */
  readonly installation: string;
  /** Profiles that are accepted by name although commands share the runner's account. */
  readonly accept?: readonly string[];
  /** Where `web_search` asks. */
  readonly search?: SearchProvider | undefined;
  /** Program of the Chromium that `browser` uses; the usual places are searched when absent. */
  readonly browser?: string | undefined;
  /** Limits of each process that a command starts. */
  readonly limits?: CommandLimits;
};

const ENTRY = fileURLToPath(new URL('./launcher.ts', import.meta.url));
const CLOSE_MS = 5_000;
const SHARED = ['PATH', 'LANG', 'LANGUAGE', 'TZ', 'TERM'];
const OWN = ['HOME', 'USER', 'LOGNAME', 'SHELL', 'TMPDIR', 'XDG_CACHE_HOME', 'XDG_STATE_HOME'];

type Waiting = {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (fault: Error) => void;
  readonly live?: LiveCommand | undefined;
};
type Launcher = { readonly child: ChildProcess; readonly waiting: Map<number, Waiting>; ready: boolean };

/** SECURITY: the launcher gets no variable that carries a credential of the runner. */
function environmentFor(runAs: RunAccount | null): Record<string, string> {
  const names = runAs ? SHARED : [...SHARED, ...OWN];
  const passed = names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]]));
  return { ...Object.fromEntries(passed), ...(runAs ? { HOME: runAs.home } : {}) };
}

function startLauncher({ runAs, installation }: SandboxedToolsOptions): Launcher {
  const command = [process.execPath, ENTRY, path.resolve(installation)];
  const [program, args] = runAs ? asAccount(runAs, command) : [process.execPath, command.slice(1)];
  const child = spawn(program, args, {
    cwd: '/',
    env: environmentFor(runAs),
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    serialization: 'advanced',
  });
  const waiting = new Map<number, Waiting>();
  const launcher: Launcher = { child, waiting, ready: false };
  child.on('message', (reply: LauncherReply) => {
    launcher.ready = true;
    const entry = waiting.get(reply.id);
    if ('output' in reply) {
      entry?.live?.onOutput(reply.output);
      return;
    }
    waiting.delete(reply.id);
    if ('fault' in reply) entry?.reject(launcherFault(reply.fault));
    else entry?.resolve(reply.answer);
  });
  const lost = () => {
    for (const { reject } of waiting.values()) reject(launcherFault('sandbox launcher ended'));
    waiting.clear();
  };
  child.once('error', lost);
  child.once('exit', lost);
  return launcher;
}

const launcherFault = (message: string): FaultError =>
  new FaultError(message, { code: ERROR_CODES.sandboxUnavailable, retryable: true });

const NOT_STARTED = {
  code: ERROR_CODES.sandboxUnavailable,
  message: 'sandbox launcher does not start; the run account must be able to read the installation',
};

/** The command was handed over and its tree died with the launcher, so it may have run. */
const lostUnder = (backend: Backend): CommandEnding => ({
  ending: 'killed',
  exitCode: 0,
  signal: 'SIGKILL',
  stdout: new Uint8Array(),
  stderr: new Uint8Array(),
  truncatedBytes: 0,
  violations: ['sandbox launcher ended while the command ran'],
  backend,
});

/** SECURITY: never a variable of the product's own, whatever a policy names. */
function passedVariables(names: readonly string[]): Record<string, string> {
  const isNamed = (name: string): boolean =>
    names.some((each) => (each.endsWith('*') ? name.startsWith(each.slice(0, -1)) : name === each));
  const chosen = Object.entries(process.env).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined && isNamed(entry[0]) && !/^(COUNTERSIGN_|NODE_)/.test(entry[0]),
  );
  return Object.fromEntries(chosen);
}

const sent = ({ signal: _signal, ...limits }: ToolLimits): SentLimits => ({
  ...limits,
  passed: passedVariables(limits.environmentNames ?? []),
});

/** Acts once when the signal aborts, at once when it has; returns the end of it. */
function onAbort(signal: AbortSignal | undefined, act: () => void): () => void {
  signal?.addEventListener('abort', act, { once: true });
  if (signal?.aborted) act();
  return () => signal?.removeEventListener('abort', act);
}

/**
 * Tools of this host. Everything happens in a small launcher process that is the run account and nothing else; a
 * launcher that ends is started again with the next call.
 */
export function sandboxedTools(options: SandboxedToolsOptions): HostTools {
  let launcher: Launcher | undefined;
  let lastId = 0;
  let closed = false;
  let swept = false;
  const backends = new Backends(options);

  function current(): Launcher {
    if (closed) throw launcherFault('tools of this host are closed');
    if (launcher && launcher.child.exitCode === null && launcher.child.connected) return launcher;
    launcher = startLauncher(options);
    return launcher;
  }

  async function ask<Kind extends WorkKind>(
    kind: Kind,
    input: LauncherWork[Kind][0],
    { signal, live }: { readonly signal?: AbortSignal; readonly live?: LiveCommand | undefined } = {},
  ): Promise<LauncherWork[Kind][1]> {
    const { child, waiting } = current();
    lastId += 1;
    const id = lastId;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    waiting.set(id, { resolve, reject, live });
    child.send({ id, kind, input } satisfies LauncherRequest, (error) => error && reject(launcherFault(error.message)));
    const tell = (kind: 'stop' | 'background') => () =>
      void child.send({ id, kind } satisfies LauncherRequest, () => undefined);
    const ends = [onAbort(signal, tell('stop')), onAbort(live?.background, tell('background'))];
    try {
      return (await promise) as LauncherWork[Kind][1];
    } finally {
      for (const end of ends) end();
    }
  }

  return {
    bash: async (args, limits, live) => {
      const chosen = backends.of(limits);
      if (!chosen.ok) return { ending: 'sandbox_failed', error: chosen.error };
      const backend = chosen.value;
      try {
        const { signal, timeoutMs } = limits;
        const { command, cwd } = args;
        const input = {
          args: { command, cwd },
          limits: { ...sent(limits), backend, resources: options.limits },
          backgroundMs: live?.backgroundMs ?? timeoutMs,
        };
        return await ask('bash', input, { signal, live });
      } catch {
        return launcher?.ready ? lostUnder(backend) : { ending: 'sandbox_failed', error: NOT_STARTED };
      }
    },
    read: (args, limits) => ask('read', { args, limits: sent(limits) }, limits),
    search: (args, limits) => ask('search', { args, limits: sent(limits) }, limits),
    web: (call, limits) => {
      const { search, browser } = options;
      return ask('web', { call, limits: sent(limits), search, browser }, limits);
    },
    endSession: async (sessionId) => {
      if (launcher?.child.connected) await ask('endSession', { sessionId });
    },
    change: (call, limits) => ask('change', { call, limits: sent(limits) }, limits),
    recoverChanges: () => ask('recover', {}),
    inspect: (call, where) => ask('inspect', { call, where }),
    facts: (paths, where) => ask('facts', { paths, where }),
    policyFiles: (project) => ask('policyFiles', { project }),
    selfTest: async () => {
      try {
        const report = await ask('selfTest', { sweep: !swept });
        swept ||= report.backends.length > 0;
        return backends.after(report);
      } catch {
        return { backends: [], reason: NOT_STARTED.message };
      }
    },
    close: async () => {
      closed = true;
      if (!launcher || launcher.child.exitCode !== null) return;
      const { child } = launcher;
      const gone = once(child, 'exit');
      if (child.connected) child.disconnect();
      await Promise.race([gone, sleep(CLOSE_MS, undefined, { ref: false })]);
      child.kill('SIGKILL');
    },
  };
}
