import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { constants } from 'node:os';
import path from 'node:path';
import type { Command } from 'commander';
import { installationPath } from '../embedded/data-folder.ts';
import { EXIT, RefusedError } from '../output.ts';

const SETPRIV = '/usr/bin/setpriv';
const ENTRY = 'apps/sandbox-runner/src/sandbox-command.ts';

/** Starts the runner's own entry as a child that dies with this process, and takes over its exit code. */
async function runSandboxEntry(args: readonly string[]): Promise<void> {
  const entry = path.join(installationPath(), ENTRY);
  if (!existsSync(entry)) {
    throw new RefusedError(`\`${ENTRY}\` is not there`, 'countersign.product.unimplemented', EXIT.unimplemented);
  }
  const node = [process.execPath, entry, ...args];
  const bound = existsSync(SETPRIV) ? [SETPRIV, '--pdeathsig=KILL', '--', ...node] : node;
  const [program, ...rest] = bound as [string, ...string[]];
  const child = spawn(program, rest, { stdio: 'inherit' });
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  child.once('error', reject);
  child.once('close', (code, signal) => resolve(code ?? 128 + (signal ? constants.signals[signal] : 0)));
  process.exitCode = await promise;
}

const VERBS = [
  ['exec', 'run a command exactly as the runner does: --profile P --project DIR -- COMMAND'],
  ['argv', 'print the arguments of bubblewrap instead'],
  ['doctor', 'run the self-test and name the cause and the fix of what fails'],
] as const;

/** `countersign sandbox exec | argv | doctor`: the same code path as the runner. */
export function addSandboxCommand(program: Command): void {
  const sandbox = program.command('sandbox').description('the sandbox of this host');
  for (const [name, about] of VERBS) {
    sandbox
      .command(name)
      .description(about)
      .allowUnknownOption()
      .allowExcessArguments()
      .helpOption(false)
      .argument('[arguments...]')
      .passThroughOptions()
      .action(() => runSandboxEntry(process.argv.slice(process.argv.indexOf('sandbox') + 1)));
  }
}
