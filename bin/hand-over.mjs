// Starts the command line with the pinned Node and lives as long as it does.
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import path from 'node:path';
import { environment, pinnedNode, root } from './prepare.mjs';

/**
 * Signals are passed on; this process ends with the child's exit code, or 128 + signal.
 * @param {readonly string[]} args
 */
export function handOver(args) {
  const entry = path.join(root, 'apps/cli/src/main.ts');
  const child = spawn(pinnedNode(), ['--disable-warning=ExperimentalWarning', entry, ...args], {
    env: environment,
    stdio: 'inherit',
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.once('error', (error) => {
    process.stderr.write(`the command line cannot be started: ${error.message}\n`);
    process.exit(1);
  });
  child.once('exit', (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)));
}
