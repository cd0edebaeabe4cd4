import { readFileSync, rmSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { FaultError } from '@countersign/kernel';
import { z } from 'zod';
import { writePrivateJson } from './private-file.ts';

const recordSchema = z.strictObject({ name: z.string(), pid: z.int().min(2), commandLine: z.string().min(1) });
const fileSchema = z.strictObject({ supervisor: recordSchema, children: z.array(recordSchema) });

/** A process of ours, recognised again by pid and whole command line. */
export type ProcessRecord = z.infer<typeof recordSchema>;

const STOP_WAIT_MS = 10_000;

/** Command line of a live process; undefined when there is none (or no /proc). */
export function commandLineOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8') || undefined;
  } catch {
    return undefined;
  }
}

const lives = ({ pid, commandLine }: ProcessRecord): boolean => commandLineOf(pid) === commandLine;

/** Records the running processes for the next start. */
export function recordProcesses(file: string, children: readonly ProcessRecord[]): void {
  const supervisor = { name: 'countersign', pid: process.pid, commandLine: commandLineOf(process.pid) ?? 'unknown' };
  writePrivateJson(file, { supervisor, children });
}

/** Forgets the record after an orderly stop. */
export const forgetProcesses = (file: string): void => rmSync(file, { force: true });

function recorded(file: string): z.infer<typeof fileSchema> | undefined {
  try {
    return fileSchema.parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch {
    return undefined;
  }
}

async function stopOrphan(record: ProcessRecord): Promise<void> {
  process.kill(record.pid, 'SIGTERM');
  for (let waited = 0; waited < STOP_WAIT_MS; waited += 100) {
    if (!lives(record)) return;
    await delay(100);
  }
  if (lives(record)) process.kill(record.pid, 'SIGKILL');
}

/**
 * Stops what a killed run left behind, last started first, and returns the names. SECURITY: a pid is signalled only
 * while its whole command line is the recorded one. Throws a FaultError when the other run is still supervised.
 */
export async function stopOrphans(file: string): Promise<string[]> {
  const record = recorded(file);
  if (!record) return [];
  if (record.supervisor.pid !== process.pid && lives(record.supervisor)) {
    throw new FaultError(`already running as process ${record.supervisor.pid}; stop it first`, {
      code: 'countersign.cli.already_running',
    });
  }
  const orphans = record.children.filter(lives).toReversed();
  for (const orphan of orphans) await stopOrphan(orphan);
  forgetProcesses(file);
  return orphans.map(({ name }) => name);
}
