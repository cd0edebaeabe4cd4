import { createHash } from 'node:crypto';
import { lstat, mkdir, readdir, readlink, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import { isInside } from '@countersign/sandbox';
import { accountUid } from './account.ts';
import { errnoOf } from './sandbox-error.ts';

const FOLDER = 'projects';
const keyOf = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Remembers a project of this account, so that the runs of its other projects protect its names too. */
export async function rememberProject(state: string, project: string): Promise<void> {
  const folder = path.join(state, FOLDER);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await symlink(project, path.join(folder, keyOf(project))).catch((error: unknown) => {
    if (errnoOf(error) !== 'EEXIST') throw error;
  });
}

async function isProject(folder: string): Promise<boolean> {
  const found = await lstat(folder).catch(() => undefined);
  return found?.isDirectory() === true && found.uid === accountUid();
}

/** Other known projects that lie in one of the writable roots. What is no folder of this account any more is forgotten. */
export async function otherProjects(
  state: string,
  project: string,
  roots: readonly string[],
): Promise<readonly string[]> {
  const folder = path.join(state, FOLDER);
  const found: string[] = [];
  for (const name of await readdir(folder).catch(() => [])) {
    const other = await readlink(path.join(folder, name)).catch(() => '');
    if (other === '' || other === project || !roots.some((root) => other !== root && isInside(other, root))) continue;
    if (await isProject(other)) found.push(other);
    else await rm(path.join(folder, name), { force: true });
  }
  return found.sort();
}
