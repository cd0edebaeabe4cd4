import { accessSync, constants } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { isInside, limitedCommand } from '@countersign/sandbox';
import { isHostRoot } from './account.ts';
import { becomeRunAccount } from './become-run-account.ts';
import { type PreparedRun, prepareRun, type SandboxRequest } from './prepare-run.ts';
import { refusalOf } from './sandbox-error.ts';
import { selfTest } from './self-test.ts';
import { type SandboxEnding, spawnSandbox } from './spawn-sandbox.ts';

const USAGE = `usage: countersign sandbox exec [--profile P] [--project DIR] [--mask PATH]... -- COMMAND [ARG]...
       countersign sandbox argv [--profile P] [--project DIR] -- COMMAND [ARG]...
       countersign sandbox doctor`;

/** Exit codes of the command line itself. */
export const EXIT = { refused: 125, usage: 64, killed: 137 } as const;
const PARENT_POLL_MS = 250;
const INSTALLATION = path.resolve(fileURLToPath(import.meta.url), '../../../../..');

const complain = (text: string): void => void process.stderr.write(`countersign sandbox: ${text}\n`);

type Invocation = { readonly request: SandboxRequest; readonly command: readonly string[] };

function parse(args: readonly string[]): Invocation | undefined {
  const end = args.indexOf('--');
  const options = {
    profile: { type: 'string' },
    project: { type: 'string' },
    mask: { type: 'string', multiple: true },
  } as const;
  try {
    const { values } = parseArgs({ args: end < 0 ? [...args] : args.slice(0, end), options, allowPositionals: false });
    const request = {
      project: values.project ?? process.cwd(),
      profile: values.profile ?? 'workspace-write',
      masks: values.mask ?? [],
      installation: INSTALLATION,
      environment: process.env,
    };
    return { request, command: end < 0 ? [] : args.slice(end + 1) };
  } catch {
    return undefined;
  }
}

/** SECURITY: a bare name is not looked up in folders that a sandboxed command can write. */
function resolveProgram(command: readonly string[], prepared: PreparedRun): readonly string[] {
  const [name = '', ...rest] = command;
  if (name.includes('/')) return command;
  const { project, temp, cache } = prepared.places;
  const folders = (prepared.environment.PATH ?? '').split(':').filter((folder) => path.isAbsolute(folder));
  for (const folder of folders.filter((each) => ![project, temp, cache].some((root) => isInside(each, root)))) {
    try {
      accessSync(path.join(folder, name), constants.X_OK);
      return [path.join(folder, name), ...rest];
    } catch {
      // The next folder may have it.
    }
  }
  return command;
}

function exitCodeOf(ending: SandboxEnding): number {
  if (ending.kind === 'exited') return ending.code;
  if (ending.kind === 'killed') return EXIT.killed;
  complain(ending.reason);
  return EXIT.refused;
}

async function exec({ request, command }: Invocation): Promise<number> {
  const prepared = await prepareRun(request);
  try {
    const running = await spawnSandbox(prepared, resolveProgram(command, prepared), ['inherit', 'inherit', 'inherit']);
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => running.stop('stop'));
    const parent = process.ppid;
    setInterval(() => process.ppid === parent || running.kill(), PARENT_POLL_MS).unref();
    return exitCodeOf(await running.ended);
  } finally {
    await prepared.release();
  }
}

async function printArgv({ request, command }: Invocation): Promise<number> {
  const prepared = await prepareRun(request);
  try {
    const argv = [prepared.program, ...prepared.args, '--', ...limitedCommand(resolveProgram(command, prepared))];
    process.stdout.write(`${JSON.stringify({ argv, environment: prepared.environment }, null, 2)}\n`);
    return 0;
  } finally {
    await prepared.release();
  }
}

async function doctor(): Promise<number> {
  const report = await selfTest({ installation: INSTALLATION, environment: process.env });
  for (const { name, ok, detail } of report.checks)
    process.stdout.write(`${ok ? 'ok  ' : 'FAIL'} ${name}${detail && `: ${detail}`}\n`);
  process.stdout.write(report.ok ? 'sandbox holds\n' : `sandbox is not available: ${report.reason}\n`);
  return report.ok ? 0 : EXIT.refused;
}

/** `exec | argv | doctor` with their arguments; the exit code of the command, or one of EXIT. */
export async function runSandboxCommand(args: readonly string[]): Promise<number> {
  const [verb, ...rest] = args;
  const invocation = parse(rest);
  const known = verb === 'doctor' || ((verb === 'exec' || verb === 'argv') && (invocation?.command.length ?? 0) > 0);
  if (!known || !invocation) {
    process.stderr.write(`${USAGE}\n`);
    return EXIT.usage;
  }
  try {
    if (isHostRoot()) return await becomeRunAccount(args);
    if (verb === 'doctor') return await doctor();
    return await (verb === 'exec' ? exec(invocation) : printArgv(invocation));
  } catch (error) {
    const { code, message } = refusalOf(error);
    complain(`${message} (${code})`);
    return EXIT.refused;
  }
}
