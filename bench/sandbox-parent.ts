import { spawn } from 'node:child_process';
import { closeSync } from 'node:fs';
import { prepareRun } from '../apps/sandbox-runner/src/sandbox/prepare-run.ts';
import { limitedCommand } from '../libs/sandbox/src/index.ts';

/** A small process that starts one kind of sandbox, again and again, and tells how often within a slice. */
const [kind = '', project = '', installation = ''] = process.argv.slice(2);
const COMMAND = 'true';

type Start = () => Promise<void>;

function ended(child: ReturnType<typeof spawn>): Promise<void> {
  child.stdout?.resume();
  child.stderr?.resume();
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => (code === 0 ? resolve() : reject(new Error(`${kind} ended with ${code}`))));
  });
}

/** The runner's own arguments, held once. */
async function bareBubblewrap(): Promise<Start> {
  const where = { project, installation, environment: process.env };
  const prepared = await prepareRun({ ...where, profile: 'workspace-write', masks: [] });
  const command = limitedCommand(['/bin/sh', '-c', COMMAND]);
  process.once('disconnect', () => void prepared.release());
  return async () => {
    const filter = prepared.openFilter();
    const stdio = ['ignore', 'pipe', 'pipe', filter, 'pipe'] as const;
    const options = { cwd: '/', env: prepared.environment, stdio: [...stdio] };
    const child = spawn(prepared.program, [...prepared.args, '--', ...command], options);
    closeSync(filter);
    await ended(child);
  };
}

async function sandboxRuntime(): Promise<Start> {
  const { SandboxManager } = await import('@anthropic-ai/sandbox-runtime');
  process.chdir(project);
  await SandboxManager.initialize({
    network: { allowedDomains: [], deniedDomains: [] },
    filesystem: { denyRead: [], allowWrite: ['.', '/tmp'], denyWrite: [] },
  });
  return async () => {
    const wrapped = await SandboxManager.wrapWithSandbox(COMMAND);
    await ended(spawn('/bin/sh', ['-c', wrapped], { stdio: ['ignore', 'pipe', 'pipe'] }));
  };
}

const start = await (kind === 'bare' ? bareBubblewrap() : sandboxRuntime());
process.on('message', async (sliceMs: number) => {
  const from = performance.now();
  let done = 0;
  let elapsedMs = 0;
  for (; elapsedMs < sliceMs; elapsedMs = performance.now() - from, done += 1) await start();
  process.send?.({ done, elapsedMs });
});
await start();
process.send?.('ready');
