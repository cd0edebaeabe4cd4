import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readlinkSync, rmSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { isInside } from '@countersign/sandbox';
import { accountUid } from './account.ts';
import { linkStatOf } from './look-up.ts';
import { errnoOf } from './sandbox-error.ts';

const FOLDER = 'projects';
const keyOf = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Remembers a project of this account, so that the runs of its other projects protect its names too. */
export function rememberProject(state: string, project: string): void {
  const folder = path.join(state, FOLDER);
  const name = path.join(folder, keyOf(project));
  if (linkStatOf(name)) return;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  try {
    symlinkSync(project, name);
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
  }
}

function isProject(folder: string): boolean {
  const found = linkStatOf(folder);
  return found?.isDirectory() === true && found.uid === accountUid();
}

/** Empty when somebody else forgot it just now. */
function targetOf(link: string): string {
  try {
    return readlinkSync(link);
  } catch {
    return '';
  }
}

/** Other known projects that lie in one of the writable roots. What is no folder of this account any more is forgotten. */
export function otherProjects(state: string, project: string, roots: readonly string[]): readonly string[] {
  const folder = path.join(state, FOLDER);
  const found: string[] = [];
  for (const name of linkStatOf(folder) ? readdirSync(folder) : []) {
    const other = targetOf(path.join(folder, name));
    if (other === '' || other === project || !roots.some((root) => other !== root && isInside(other, root))) continue;
    if (isProject(other)) found.push(other);
    else rmSync(path.join(folder, name), { force: true });
  }
  return found.sort();
}
