import { readFileSync } from 'node:fs';

/** Start time in clock ticks, so that a reused process id is not taken for another process. */
function startTime(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}

const known: { name?: string } = {};

/** Name of this process that no later one shares. */
export function thisProcess(): string {
  known.name ??= `${process.pid} ${startTime(process.pid) ?? ''}`;
  return known.name;
}

/** True while the process of that name lives. */
export function isAlive(owner: string): boolean {
  if (owner === known.name) return true;
  const [pid = '', started = ''] = owner.split(' ');
  const now = startTime(Number(pid));
  return now !== undefined && now === started;
}
