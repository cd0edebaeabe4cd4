import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { sandboxedTools } from '../apps/sandbox-runner/src/launcher/sandboxed-tools.ts';
import { asAccount } from '../apps/sandbox-runner/src/sandbox/run-account.ts';
import { type Arm, interleave, isQuiet, ratio, type Slice, show } from './interleave.ts';

const ROUNDS = 25;
const SLICE_MS = 700;
const MOST_OF_BARE = 1.25;
const LEAST_OF_RUNTIME = 2;
const MOST_BLOCKED_MS = 1;
const PARENT = fileURLToPath(new URL('./sandbox-parent.ts', import.meta.url));
const INSTALLATION = path.resolve(fileURLToPath(import.meta.url), '../..');
const END_MS = 2_000;
const started: ChildProcess[] = [];
const print = (line: string): void => void process.stdout.write(`${line}\n`);

const isRoot = process.getuid?.() === 0;
const uid = isRoot ? 61_184 : (process.getuid?.() ?? 0);
const base = mkdtempSync('/var/tmp/countersign-bench-');
chmodSync(base, 0o755);
const [home, project] = ['home', 'project'].map((name) => {
  const folder = path.join(base, name);
  mkdirSync(folder);
  chownSync(folder, uid, isRoot ? uid : (process.getgid?.() ?? 0));
  return folder;
}) as [string, string];
const runAs = isRoot ? { uid, gid: uid, home } : null;

/** A small parent process; undefined when what it needs is not there. */
async function parent(kind: string): Promise<ChildProcess | undefined> {
  const command = [process.execPath, PARENT, kind, project, INSTALLATION];
  const [program, args] = runAs ? asAccount(runAs, command) : [process.execPath, command.slice(1)];
  const env = { PATH: process.env.PATH ?? '', HOME: home };
  const child = spawn(program, args, { env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'], detached: true });
  started.push(child);
  const ready = await Promise.race([once(child, 'message').then(() => true), once(child, 'exit').then(() => false)]);
  return ready ? child : undefined;
}

/** Ends the parents with all that they started; bubblewrap's own guards are given up at the disconnect, which comes first. */
async function endAll(): Promise<void> {
  for (const child of started) {
    const gone = once(child, 'exit');
    if (child.exitCode !== null || child.signalCode !== null) continue;
    if (child.connected) child.disconnect();
    await Promise.race([gone, sleep(END_MS, undefined, { ref: false })]);
    // The proxies of sandbox-runtime keep its parent alive, and socat is a child of its own.
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null)
      process.kill(-child.pid, 'SIGKILL');
  }
}

const armOf = (name: string, child: ChildProcess): Arm => ({
  name,
  run: async (sliceMs) => {
    child.send(sliceMs);
    const [slice] = (await once(child, 'message')) as [Slice];
    return slice;
  },
});

const tools = sandboxedTools({ runAs, installation: INSTALLATION });
const limits = {
  ...{
    callId: 'call_bench',
    sessionId: 'ses_bench',
    project,
    profile: 'workspace-write',
    denyRead: [],
    denyWrite: [],
    timeoutMs: 20_000,
  },
  signal: new AbortController().signal,
};

async function startOnce(): Promise<void> {
  const ending = await tools.bash({ command: 'true' }, limits);
  if (ending.ending !== 'exited' || ending.exitCode !== 0) throw new Error(JSON.stringify(ending));
}

const runner: Arm = {
  name: 'runner',
  run: async (sliceMs) => {
    const from = performance.now();
    let done = 0;
    let elapsedMs = 0;
    for (; elapsedMs < sliceMs; elapsedMs = performance.now() - from, done += 1) await startOnce();
    return { done, elapsedMs };
  },
};

/** Time that this process spends on one start, milliseconds: what its event loop cannot do anything else in. */
async function blockedMs(): Promise<number> {
  const starts = 40;
  const before = process.cpuUsage();
  for (let count = 0; count < starts; count += 1) await startOnce();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000 / starts;
}

const verdict = (holds: boolean): string => (holds ? 'holds' : 'DOES NOT HOLD');

try {
  const parents = await Promise.all([parent('bare'), parent('bare'), parent('runtime')]);
  const [bare, again, runtime] = parents;
  if (!bare || !again) throw new Error('bubblewrap does not start; run `countersign sandbox doctor`');
  await startOnce();
  const arms = [runner, armOf('bare', bare), armOf('bare again', again)];
  const rates = await interleave(runtime ? [...arms, armOf('runtime', runtime)] : arms, ROUNDS, SLICE_MS);
  const same = ratio(rates, 'bare again', 'bare');
  const ofBare = ratio(rates, 'bare', 'runner');
  print(`the same twice: ${show(same)}${isQuiet(same) ? '' : '; too noisy for a verdict'}`);
  print(
    `time of a start, runner / bare bubblewrap: ${show(ofBare)}; at most ${MOST_OF_BARE}: ${verdict(ofBare.median <= MOST_OF_BARE)}`,
  );
  if (runtime) {
    const ofRuntime = ratio(rates, 'runner', 'runtime');
    print(
      `time of a start, sandbox-runtime / runner: ${show(ofRuntime)}; at least ${LEAST_OF_RUNTIME}: ${verdict(ofRuntime.median >= LEAST_OF_RUNTIME)}`,
    );
  } else print('sandbox-runtime does not start here (it needs socat); not compared');
  const blocked = await blockedMs();
  print(
    `the runner's own process, per start: ${blocked.toFixed(2)} ms; at most ${MOST_BLOCKED_MS}: ${verdict(blocked <= MOST_BLOCKED_MS)}`,
  );
} finally {
  await endAll();
  await tools.close();
  rmSync(base, { recursive: true, force: true });
}
