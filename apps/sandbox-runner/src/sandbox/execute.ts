import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CommandLimits } from '@countersign/sandbox';
import { EgressProxy } from '../egress/egress-proxy.ts';
import { prepareGuarded, spawnGuarded } from './app-guard.ts';
import { BoundedOutput } from './bounded-output.ts';
import { type OutputPipe, PipePool } from './output-pipe.ts';
import { type PreparedRun, prepareRun, type SandboxRequest } from './prepare-run.ts';
import { quarantineViolations } from './quarantine.ts';
import { readOnlyNotes } from './read-only-notes.ts';
import { refusalOf } from './sandbox-error.ts';
import { type RunningSandbox, type SandboxEnding, spawnSandbox } from './spawn-sandbox.ts';

export type OutputStream = 'stdout' | 'stderr';

export type BashRequest = SandboxRequest & {
  /** Text for `/bin/sh -c`, or a program with its arguments. */
  readonly command: string | readonly string[];
  /** Wall clock, milliseconds. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** Limits of each process. */
  readonly resources?: CommandLimits | undefined;
  /** When it aborts, the time limit becomes this one, counted from then. */
  readonly background?: { readonly signal: AbortSignal; readonly timeoutMs: number };
  /** Where the pipes of the output come from; made for this run alone when absent. */
  readonly pipes?: PipePool;
  /** Output as it comes, whole and in order for each stream. */
  readonly onOutput?: (stream: OutputStream, chunk: Uint8Array) => void;
};

export type BashOutcome = SandboxEnding & {
  /** Head and tail of the output, at most 30,000 bytes of each stream. */
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  readonly truncated: boolean;
  /** Bytes that are missing between head and tail of both streams. */
  readonly truncatedBytes: number;
  /** Protected paths that the command was kept from writing, and those that it made against a write rule, moved away. */
  readonly violations: readonly string[];
  /** A line for each connection that the profile `networked` asked for. */
  readonly egress: readonly string[];
};

const DRAIN_MS = 2_000;
const MAX_REASON_CHARS = 500;

function collect(pipe: OutputPipe, output: BoundedOutput, onChunk: (chunk: Buffer) => void): Promise<unknown> {
  pipe.readEnd.on('data', (chunk: Buffer) => {
    output.add(chunk);
    onChunk(chunk);
  });
  pipe.readEnd.on('error', () => undefined);
  return once(pipe.readEnd, 'close').catch(() => undefined);
}

const empty = new Uint8Array();
const failed = (error: unknown): BashOutcome => {
  const { code, message: reason } = refusalOf(error);
  return {
    kind: 'sandbox_failed',
    code,
    reason,
    stdout: empty,
    stderr: empty,
    truncated: false,
    truncatedBytes: 0,
    violations: [],
    egress: [],
  };
};

/** SECURITY: what a failed sandbox printed is bubblewrap's own word, never the command's. */
function explain(ending: SandboxEnding, stderr: BoundedOutput): SandboxEnding {
  if (ending.kind !== 'sandbox_failed') return ending;
  const said = stderr.bytes().toString('utf8').trim();
  return said === '' ? ending : { ...ending, reason: said.slice(-MAX_REASON_CHARS) };
}

/** The proxy of a run that may reach hosts; undefined for every other profile. */
export function wayOut({ profile }: PreparedRun, request: SandboxRequest): EgressProxy | undefined {
  if (profile !== 'networked') return undefined;
  const { hosts = [], blockPrivateNetwork = false } = request;
  return new EgressProxy({ hosts, blockPrivateNetwork });
}

/** Stops the command at its time limit; a longer one takes its place when it goes to the background. */
function timeLimit(running: RunningSandbox, timeoutMs: number, background: BashRequest['background']) {
  let timer = setTimeout(() => running.stop('timeout'), timeoutMs);
  const extend = () => {
    clearTimeout(timer);
    timer = setTimeout(() => running.stop('timeout'), background?.timeoutMs);
  };
  background?.signal.addEventListener('abort', extend, { once: true });
  if (background?.signal.aborted) extend();
  const end = () => {
    clearTimeout(timer);
    background?.signal.removeEventListener('abort', extend);
  };
  return { end };
}

type Started = (stdout: OutputPipe, stderr: OutputPipe) => Promise<RunningSandbox>;

/** Runs what `start` starts to its end, its output kept within bounds. */
async function capture(spool: string, request: BashRequest, start: Started) {
  const { timeoutMs, signal, onOutput, pipes = new PipePool(2) } = request;
  const { stdout, stderr } = await pipes.take(spool);
  const kept = { stdout: new BoundedOutput(), stderr: new BoundedOutput() };
  const drained = Promise.all([
    collect(stdout, kept.stdout, (chunk) => onOutput?.('stdout', chunk)),
    collect(stderr, kept.stderr, (chunk) => onOutput?.('stderr', chunk)),
  ]);
  const closeWriteEnds = () => {
    stdout.closeWriteEnd();
    stderr.closeWriteEnd();
  };
  const running = await start(stdout, stderr).finally(closeWriteEnds);
  const limit = timeLimit(running, timeoutMs, request.background);
  const onAbort = () => running.stop('stop');
  signal?.addEventListener('abort', onAbort, { once: true });
  if (signal?.aborted) onAbort();
  const ending = await running.ended;
  limit.end();
  signal?.removeEventListener('abort', onAbort);
  await Promise.race([drained, sleep(DRAIN_MS)]);
  stdout.readEnd.destroy();
  stderr.readEnd.destroy();
  const truncatedBytes = kept.stdout.droppedBytes + kept.stderr.droppedBytes;
  return {
    ...explain(ending, kept.stderr),
    stdout: kept.stdout.bytes(),
    stderr: kept.stderr.bytes(),
    truncated: truncatedBytes > 0,
    truncatedBytes,
  };
}

async function runPrepared(prepared: PreparedRun, request: BashRequest): Promise<BashOutcome> {
  const { command, resources } = request;
  const argv = typeof command === 'string' ? ['/bin/sh', '-c', command] : command;
  const egress = wayOut(prepared, request);
  const ended = await capture(prepared.spool, request, (stdout, stderr) =>
    spawnSandbox(prepared, {
      command: argv,
      stdio: ['ignore', stdout.writeEnd, stderr.writeEnd],
      ...(egress ? { egress } : {}),
      resources,
    }),
  ).finally(() => egress?.close());
  const said = `${Buffer.from(ended.stderr)}\n${Buffer.from(ended.stdout)}`;
  const notes = readOnlyNotes(said, { protectedPaths: prepared.protectedPaths, project: prepared.places.project });
  return {
    ...ended,
    violations: [...notes, ...(await quarantineViolations(prepared)), ...(egress?.log.refusals() ?? [])],
    egress: egress?.log.lines() ?? [],
  };
}

/**
 * Runs a command in a sandbox as the account of this process. Never rejects: whatever keeps the command from running is
 * `sandbox_failed`. On return the whole process tree is gone.
 */
export async function runBash(request: BashRequest): Promise<BashOutcome> {
  let prepared: PreparedRun | undefined;
  try {
    prepared = await prepareRun(request);
    return await runPrepared(prepared, request);
  } catch (error) {
    return failed(error);
  } finally {
    await prepared?.release().catch(() => undefined);
  }
}

/**
 * Runs a command with nothing between it and the host but checks of what it names. Never rejects: whatever keeps it from
 * running is `sandbox_failed`. On return its process group is gone; a process that left the group is not.
 */
export async function runGuarded(request: BashRequest): Promise<BashOutcome> {
  try {
    const guarded = await prepareGuarded(request);
    const ended = await capture(guarded.spool, request, async (stdout, stderr) =>
      spawnGuarded(guarded, request, [stdout.writeEnd, stderr.writeEnd]),
    );
    return { ...ended, violations: [], egress: [] };
  } catch (error) {
    return failed(error);
  }
}
