import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';

/** A cache folder for this project alone. It stays from run to run; no program of the host reads it. */
export async function privateCacheOf(state: string, project: string): Promise<string> {
  const folder = path.join(state, 'caches', createHash('sha256').update(project).digest('hex'));
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return folder;
}
