import { spawn } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { err, ok, type Result } from '@countersign/kernel';
import type { Hook, HookEvent } from './hook.ts';

const MAX_SAID_BYTES = 4_096;
const WRITABLE_BY_OTHERS = 0o022;

/** SECURITY: a program that another account may change would run with the runner's rights. */
async function untrusted(program: string): Promise<string | undefined> {
  const found = await stat(program).catch(() => undefined);
  if (!found?.isFile()) return `hook \`${program}\` is not there`;
  const isOurs = found.uid === 0 || found.uid === process.getuid?.();
  return isOurs && (found.mode & WRITABLE_BY_OTHERS) === 0
    ? undefined
    : `hook \`${program}\` may be changed by other accounts`;
}

function killTree(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // It ended by itself.
  }
}

const firstLine = (said: string): string => said.split('\n', 1)[0]?.trim() ?? '';

function start({ command, timeoutMs }: Hook, event: HookEvent): Promise<Result<undefined, string>> {
  const [program = '', ...args] = command;
  const { promise, resolve } = Promise.withResolvers<Result<undefined, string>>();
  const child = spawn(program, args, {
    cwd: '/',
    detached: true,
    env: { PATH: '/usr/local/bin:/usr/bin:/bin', LANG: 'C.UTF-8' },
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  let said = '';
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    killTree(child.pid);
  }, timeoutMs);
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    said = (said + chunk).slice(0, MAX_SAID_BYTES);
  });
  child.stdin.on('error', () => undefined);
  child.stdin.end(`${JSON.stringify(event)}\n`);
  child.once('error', (error) => resolve(err(`hook \`${program}\` does not start: ${error.message}`)));
  child.once('exit', (code, signal) => {
    clearTimeout(timer);
    killTree(child.pid);
    if (isLate) resolve(err(`hook \`${program}\` took longer than ${timeoutMs} ms`));
    else if (signal) resolve(err(`hook \`${program}\` was ended by ${signal}`));
    else if (code !== 0) resolve(err(firstLine(said) || `hook \`${program}\` answered ${code}`));
    else resolve(ok(undefined));
  });
  return promise;
}

/**
 * Runs one hook with the event on its standard input, as the runner's own account and outside the sandbox. Ok only when it
 * exits with 0 in time; else the first line that it printed, or what went wrong. What it started is ended with it.
 */
export async function runHook(hook: Hook, event: HookEvent): Promise<Result<undefined, string>> {
  const problem = await untrusted(hook.command[0] ?? '');
  return problem === undefined ? start(hook, event) : err(problem);
}
