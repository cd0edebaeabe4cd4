import { readFileSync } from 'node:fs';
import { prepareRun } from '../prepare-run.ts';
import { spawnSandbox } from '../spawn-sandbox.ts';

/** Starts a command in a sandbox and dies when the first process inside prepares its mounts and is not tied to anybody yet. */
const [project = '', installation = '', command = ''] = process.argv.slice(2);
const DEADLINE_MS = 20_000;

const childOf = (pid: number): number =>
  Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ')[0]);
const bounds = (pid: number): string => /CapBnd:\s*(\S+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '';

/** The first process gives its capabilities up as soon as bubblewrap lets it go on. */
function firstProcessGoesOn(): boolean {
  try {
    const first = childOf(childOf(process.pid));
    return first > 0 && bounds(first) !== bounds(process.pid);
  } catch {
    return false;
  }
}

const where = { project, installation, environment: process.env };
const prepared = await prepareRun({ ...where, profile: 'workspace-write', masks: [] });
const starting = spawnSandbox(prepared, {
  command: ['/bin/sh', '-c', command],
  stdio: ['ignore', 'ignore', 'ignore'],
});
const deadline = performance.now() + DEADLINE_MS;
while (!firstProcessGoesOn() && performance.now() < deadline);
process.kill(process.pid, 'SIGKILL');
await starting;
