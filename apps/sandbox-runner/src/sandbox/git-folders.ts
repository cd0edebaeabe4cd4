import { closeSync, constants, openSync, readSync } from 'node:fs';
import path from 'node:path';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { linkStatOf, realPathOf } from './look-up.ts';
import { errnoOf, refuse } from './sandbox-error.ts';

const MAX_POINTER_BYTES = 8_192;

async function readPointer(file: string): Promise<string | undefined> {
  try {
    const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const buffer = Buffer.alloc(MAX_POINTER_BYTES);
      return buffer.toString('utf8', 0, readSync(descriptor, buffer)).trim();
    } finally {
      closeSync(descriptor);
    }
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'EISDIR') return undefined;
    return refuse(ERROR_CODES.badRoot, `git file \`${file}\` cannot be read; repair or remove it`);
  }
}

async function real(target: string): Promise<string[]> {
  const found = realPathOf(target);
  return found === undefined ? [] : [found];
}

/** The shared git folder that a worktree's own git folder names in `commondir`. */
async function commonFolder(gitFolder: string): Promise<string[]> {
  const pointer = await readPointer(path.join(gitFolder, 'commondir'));
  return pointer ? real(path.resolve(gitFolder, pointer)) : [];
}

/**
 * What must be read-only for the `.git` of a repository: a folder itself, or a pointer file with the folder it names and
 * their common folder. A symbolic link is refused, because it could be aimed elsewhere between check and use.
 */
export async function gitPaths(repository: string): Promise<readonly string[]> {
  const git = `${repository}/.git`;
  const found = linkStatOf(git);
  if (!found) return [];
  if (found.isSymbolicLink()) refuse(ERROR_CODES.badRoot, `\`${git}\` is a symbolic link; use a folder or a git file`);
  if (found.isDirectory()) return [git, ...(await commonFolder(git))];
  const pointer = (await readPointer(git))?.replace(/^gitdir:\s*/, '');
  const folders = pointer ? await real(path.resolve(repository, pointer)) : [];
  const common = await Promise.all(folders.map(commonFolder));
  return [git, ...folders, ...common.flat()];
}

/**
 * Git folders outside a worktree that belong to it: the one its pointer names, when that points back, and the repository
 * it is a part of. SECURITY: hardened mode shows them, so a pointer alone, which comes with the content, shows nothing.
 */
export async function worktreeFolders(project: string): Promise<readonly string[]> {
  const git = `${project}/.git`;
  if (!linkStatOf(git)?.isFile()) return [];
  const pointer = (await readPointer(git))?.replace(/^gitdir:\s*/, '');
  const [folder] = pointer ? await real(path.resolve(project, pointer)) : [];
  if (!folder || (await readPointer(path.join(folder, 'gitdir'))) !== git) return [];
  const [common] = await commonFolder(folder);
  return common && path.dirname(folder) === path.join(common, 'worktrees') ? [common] : [];
}
