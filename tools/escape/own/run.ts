import { spawn } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type BashRequest, runBash } from '../../../apps/sandbox-runner/src/sandbox/execute.ts';
import { closeInheritedDescriptors } from '../../../apps/sandbox-runner/src/sandbox/inherited-descriptors.ts';
import { type Check, quoted } from './check.ts';
import { kernelChecks } from './kernel-checks.ts';
import { networkChecks } from './network-checks.ts';
import { projectChecks } from './project-checks.ts';
import { stateChecks } from './state-checks.ts';
import { openTargets } from './targets.ts';
import { World } from './world.ts';

/**
 * `node run.ts sandboxed|bare host|network|all REPORT`: makes every attempt of the checks, in our sandbox or in none, each check in
 * a new world below HOME, and writes which went through.
 */
const [mode = '', place = '', report = ''] = process.argv.slice(2);
const TIMEOUT_MS = 120_000;
const STEP_SECONDS = 20;
const isBare = mode === 'bare';

export type Finding = {
  readonly check: string;
  readonly name: string;
  readonly kind: 'attempt' | 'works';
  readonly went: boolean;
  readonly dull: boolean;
};

type Said = { readonly text: string; readonly fault: string };

async function bare(world: World, text: string): Promise<Said> {
  const child = spawn('/bin/sh', ['-c', text], {
    detached: true,
    cwd: world.project,
    env: world.environment(),
    stdio: ['ignore', 'pipe', 'ignore', 'ignore', 'ignore', 'ignore', 'ignore', 'ignore', 'ignore', 9],
  });
  let said = '';
  child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    said += chunk;
  });
  const timer = setTimeout(() => process.kill(-(child.pid ?? 0), 'SIGKILL'), TIMEOUT_MS);
  await new Promise((resolve) => child.once('close', resolve));
  clearTimeout(timer);
  return { text: said, fault: '' };
}

async function sandboxed(world: World, text: string, asked: Partial<BashRequest>): Promise<Said> {
  const outcome = await runBash({
    ...{ project: world.project, profile: 'workspace-write', masks: [], installation: world.installation },
    ...{ environment: world.environment(), timeoutMs: TIMEOUT_MS, command: text, ...asked },
  });
  const said = Buffer.from(outcome.stdout).toString('utf8');
  return { text: said, fault: outcome.kind === 'exited' ? '' : JSON.stringify({ ...outcome, stdout: said }) };
}

async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 30_000;
  while (!condition() && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 20));
}

/** Each step in a shell of its own, so that none ends the others. */
const scriptOf = (check: Check, world: World): string =>
  [
    'exec 2>/dev/null',
    ...[...check.works(world), ...check.attempts(world)].map(
      ({ text }, index) =>
        `timeout -k 1 ${STEP_SECONDS} /bin/sh -c ${quoted(text)} >/dev/null </dev/null && echo "WENT ${index}"`,
    ),
    'echo DONE',
  ].join('\n');

async function findingsOf(check: Check, world: World): Promise<readonly Finding[]> {
  const asked = check.request(world);
  const run = (text: string): Promise<Said> => (isBare ? bare(world, text) : sandboxed(world, text, asked));
  const end = await check.prepare?.(world);
  const other = check.beside?.(world);
  const beside = other === undefined ? undefined : run(other);
  if (beside) await until(() => existsSync(path.join(world.project, 'beside-up')));
  const { text, fault } = await run(scriptOf(check, world));
  world.file('beside-end', '');
  await beside;
  end?.();
  if (!text.includes('DONE')) throw new Error(`${check.id}: ${fault || 'did not reach its end'}`);
  const went = new Set((text.match(/^WENT \d+$/gm) ?? []).map((line) => Number(line.slice(5))));
  const works = check.works(world);
  return [...works, ...check.attempts(world)].map(({ name, went: look, dull }, index) => ({
    check: check.id,
    name,
    kind: index < works.length ? 'works' : 'attempt',
    went: look ? look(world) : went.has(index),
    dull: dull !== undefined,
  }));
}

if (isBare) process.umask(0o022);
else closeInheritedDescriptors();
if (place !== 'host') await openTargets(isBare);
const checks = [...stateChecks, ...projectChecks, ...kernelChecks, ...networkChecks];
const findings: Finding[] = [];
const only = process.env.ONLY;
for (const check of checks.filter(({ id, place: at }) => (place === 'all' || at === place) && (!only || id === only))) {
  const world = new World(path.join(process.env.HOME ?? '/nowhere', String(checks.indexOf(check))));
  try {
    findings.push(...(await findingsOf(check, world)));
  } finally {
    world.end();
  }
}
writeFileSync(report, JSON.stringify(findings));
process.exit(0);
