import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import path from 'node:path';
import type { ToolsUnderTest } from './tools-under-test.ts';

/** Pipes that a living launcher keeps ready; their number is bounded and they go with it. */
const POOL = '/spool/pipes-';

export type SoakReport = {
  readonly failed: number;
  readonly seconds: number;
  /** Growth of the largest resident size of the launchers over what they had before, bytes. */
  readonly grownBytes: number;
  /** Pipes that the launchers keep ready. */
  readonly pooled: number;
  readonly left: { readonly processes: string[]; readonly files: string[]; readonly descriptors: number };
};

type Process = { readonly pid: number; readonly parent: number; readonly command: string };

function allProcesses(): Process[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
      return [{ pid: Number(name), parent, command: command || stat.slice(0, 60) }];
    } catch {
      return [];
    }
  });
}

function childrenOf(pid: number): Process[] {
  const all = allProcesses();
  const below = (parent: number): Process[] =>
    all.filter((one) => one.parent === parent).flatMap((one) => [one, ...below(one.pid)]);
  return below(pid);
}

const launchers = (): Process[] => childrenOf(process.pid).filter(({ command }) => command.includes('launcher.ts'));
const openFiles = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length;
const pipesHere = (): number =>
  readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return /^(pipe|socket):/.test(readlinkSync(`/proc/self/fd/${fd}`));
    } catch {
      return false;
    }
  }).length;

function residentBytes(pid: number): number {
  const found = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(found?.[1] ?? 0) * 1024;
}

const filesBelow = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .sort();

/** Everything that commands could leave behind. */
function standing(host: ToolsUnderTest, project: string) {
  const all = launchers();
  const files = [...filesBelow(host.home), ...filesBelow(project)];
  return {
    processes: all.flatMap(({ pid }) => childrenOf(pid).map(({ command }) => command)),
    files: files.filter((file) => !file.includes(POOL)),
    pooled: files.filter((file) => file.includes(POOL)).length,
    descriptors: all.reduce((sum, { pid }) => sum + openFiles(pid), pipesHere()),
    resident: Math.max(...all.map(({ pid }) => residentBytes(pid))),
  };
}

/**
 * Runs short commands through two runners' tools on one project, `atOnce` at a time, and tells what is left after them. With
 * `floodBytes` each command prints that much.
 */
export async function soak(
  host: ToolsUnderTest,
  options: { readonly commands: number; readonly atOnce: number; readonly floodBytes?: number },
): Promise<SoakReport> {
  const project = host.project();
  const both = [host.tools, host.another()];
  const command = options.floodBytes
    ? `yes | head -c ${options.floodBytes}`
    : 'echo $$ > "out.$$"; rm "out.$$"; echo ok';
  const runOne = async (turn: number): Promise<boolean> => {
    const ending = await both[turn % 2]?.bash({ command }, host.limits(project, { timeoutMs: 60_000 }));
    return ending?.ending === 'exited' && ending.exitCode === 0;
  };
  await Promise.all([runOne(0), runOne(1)]);
  const before = standing(host, project);
  const startedMs = performance.now();
  let failed = 0;
  let next = 0;
  const worker = async () => {
    for (let turn = next++; turn < options.commands; turn = next++) if (!(await runOne(turn))) failed += 1;
  };
  await Promise.all(Array.from({ length: options.atOnce }, worker));
  const seconds = (performance.now() - startedMs) / 1000;
  const after = standing(host, project);
  await both[1]?.close();
  return {
    failed,
    seconds,
    grownBytes: after.resident - before.resident,
    pooled: after.pooled,
    left: {
      processes: after.processes.filter((one) => !before.processes.includes(one)),
      files: after.files.filter((one) => !before.files.includes(one)),
      descriptors: after.descriptors - before.descriptors,
    },
  };
}
