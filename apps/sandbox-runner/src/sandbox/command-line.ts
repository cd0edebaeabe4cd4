import { accessSync, constants } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { isInside, limitedCommand } from '@countersign/sandbox';
import { isHostRoot } from './account.ts';
import { becomeRunAccount } from './become-run-account.ts';
import { type Invocation, parseInvocation, USAGE } from './command-line-options.ts';
import { wayOut } from './execute.ts';
import { type PreparedRun, prepareRun } from './prepare-run.ts';
import { quarantineViolations } from './quarantine.ts';
import { refusalOf } from './sandbox-error.ts';
import { selfTest } from './self-test.ts';
import { type SandboxEnding, spawnSandbox } from './spawn-sandbox.ts';

/** Exit codes of the command line itself. */
export const EXIT = { refused: 125, usage: 64, killed: 137 } as const;
const SHARED_ACCOUNT =
  'note: commands run as your own account; an agent with a shell of its own on this account can act as you';
const PARENT_POLL_MS = 250;
const INSTALLATION = path.resolve(fileURLToPath(import.meta.url), '../../../../..');

const complain = (text: string): void => void process.stderr.write(`countersign sandbox: ${text}\n`);

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
    const egress = wayOut(prepared, request);
    const running = await spawnSandbox(prepared, {
      command: resolveProgram(command, prepared),
      stdio: ['inherit', 'inherit', 'inherit'],
      ...(egress ? { egress } : {}),
    });
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => running.stop('stop'));
    const parent = process.ppid;
    setInterval(() => process.ppid === parent || running.kill(), PARENT_POLL_MS).unref();
    const ending = await running.ended;
    egress?.close();
    for (const text of [...(await quarantineViolations(prepared)), ...(egress?.log.refusals() ?? [])]) complain(text);
    return exitCodeOf(ending);
  } finally {
    await prepared.release();
  }
}

async function printArgv({ request, command }: Invocation): Promise<number> {
  const prepared = await prepareRun(request);
  try {
    const argv = [
      prepared.program,
      ...prepared.args,
      '--',
      ...limitedCommand(resolveProgram(command, prepared), { bridged: prepared.profile === 'networked', held: true }),
    ];
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
  if (process.env.COUNTERSIGN_RUN_AS === undefined) process.stdout.write(`${SHARED_ACCOUNT}\n`);
  return report.ok ? 0 : EXIT.refused;
}

/** `exec | argv | doctor` with their arguments; the exit code of the command, or one of EXIT. */
export async function runSandboxCommand(args: readonly string[]): Promise<number> {
  const [verb, ...rest] = args;
  const surroundings = { installation: INSTALLATION, environment: process.env, cwd: process.cwd() };
  const invocation = parseInvocation(rest, surroundings);
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
