import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { err, ok } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';
import type { CommandEnding, HostTools, ToolError } from '../host-tools.ts';

const failed = (error: unknown): ToolError => ({ code: ERROR_CODES.toolFailed, message: String(error) });

function factOf(path: string) {
  const exists = existsSync(path);
  const contentDigest = exists ? createHash('sha256').update(readFileSync(path)).digest() : new Uint8Array();
  return { path, realPath: exists ? realpathSync(path) : '', exists, contentDigest };
}

const stateOf = (bytes: Buffer) => ({
  digest: createHash('sha256').update(bytes).digest('hex'),
  size: bytes.length,
  mode: 0o644,
});

function runShell(command: string, timeoutMs: number, signal: AbortSignal): Promise<CommandEnding> {
  const child = spawn('/bin/sh', ['-c', command], { detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  const output = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  child.stdout.on('data', (chunk: Buffer) => output.stdout.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => output.stderr.push(chunk));
  let killedBy: 'timeout' | 'stop' | undefined;
  const kill = (by: 'timeout' | 'stop') => {
    killedBy = by;
    try {
      if (child.pid) process.kill(-child.pid, 'SIGKILL');
    } catch (error) {
      // A group that ended meanwhile is what was asked for.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  };
  const timer = setTimeout(() => kill('timeout'), timeoutMs);
  const onAbort = () => kill('stop');
  signal.addEventListener('abort', onAbort);
  return new Promise((resolve) => {
    child.once('close', (code, signalName) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      resolve({
        ending: signalName ? 'killed' : 'exited',
        exitCode: code ?? 0,
        signal: signalName ?? '',
        ...(killedBy ? { killedBy } : {}),
        stdout: Buffer.concat(output.stdout),
        stderr: Buffer.concat(output.stderr),
        truncatedBytes: 0,
        violations: [],
        backend: 'plain-shell',
      });
    });
  });
}

/** Plain processes and files without any sandbox: for tests of the order path only. */
export const shellTools: HostTools = {
  bash: (args, limits) => runShell(args.command, limits.timeoutMs, limits.signal),
  read: async ({ path }) => {
    try {
      return ok(new Uint8Array(readFileSync(path)));
    } catch (error) {
      return err(failed(error));
    }
  },
  search: async () => err(failed('no search')),
  web: async () => err(failed('no web')),
  endSession: async () => undefined,
  change: async (call) => {
    if (call.tool !== 'write') return err(failed('only `write`'));
    const { path, content } = call.args;
    const before = existsSync(path) ? stateOf(readFileSync(path)) : null;
    writeFileSync(path, content);
    const facts = { id: 'chg_1', callId: 'call_1', project: '/', path, before, after: stateOf(Buffer.from(content)) };
    return ok({ change: { ...facts, atMs: 1 }, diff: `+${content}` });
  },
  recoverChanges: async () => [],
  inspect: async (call, { pathsOnly }) => {
    if (!('path' in call.args) || call.args.path === undefined) return ok({ paths: [], diff: '' });
    const diff = call.tool === 'write' && !pathsOnly ? `+${call.args.content}` : '';
    return ok({ paths: [factOf(call.args.path)], diff });
  },
  facts: async (paths) => ok(paths.map(factOf)),
  policyFiles: async () => ok([]),
  selfTest: async () => ({ backends: ['plain-shell'], reason: '' }),
  close: async () => undefined,
};
