// Starts the command line with the pinned Node and lives as long as it does.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { constants } from 'node:os';
import path from 'node:path';
import { environment, pinnedNode, root } from './prepare.mjs';

const SETPRIV = '/usr/bin/setpriv';
const SANDBOX_VERBS = ['exec', 'argv', 'doctor'];

/**
 * The file that takes the arguments, and the arguments it takes. A sandbox command goes straight to the runner's entry:
 * every process in between costs start-up time and is one more that can die alone.
 * @param {readonly string[]} args
 */
function entryOf(args) {
  const [command, verb = ''] = args;
  if (command !== 'sandbox' || !SANDBOX_VERBS.includes(verb)) return [path.join(root, 'apps/cli/src/main.ts'), ...args];
  return [path.join(root, 'apps/sandbox-runner/src/sandbox-command.ts'), ...args.slice(1)];
}

/**
 * Signals are passed on; this process ends with the child's exit code, or 128 + signal.
 * @param {readonly string[]} args
 */
export function handOver(args) {
  const node = [pinnedNode(), '--disable-warning=ExperimentalWarning', ...entryOf(args)];
  // SECURITY: a command line that is killed takes the child, and so every sandbox of it, with it.
  const bound = args[0] === 'sandbox' && existsSync(SETPRIV) ? [SETPRIV, '--pdeathsig=KILL', '--', ...node] : node;
  const [program, ...rest] = bound;
  const child = spawn(program, rest, { env: environment, stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.once('error', (error) => {
    process.stderr.write(`the command line cannot be started: ${error.message}\n`);
    process.exit(1);
  });
  child.once('exit', (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)));
}
