import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, readlink } from 'node:fs/promises';
import path from 'node:path';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { isInside, PROTECTED_NAMES } from '@countersign/sandbox';
import { errnoOf, refuse } from '../sandbox/sandbox-error.ts';
import { type FileScope, type ResolvedPath, refuseMasked, resolvePath } from './real-path.ts';
import { refuseGitFolder } from './tool-ground.ts';

const NEW_FOLDER_MODE = 0o755;
const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/** Name of an entry of an open folder; no component before it can be swapped. */
export const inFolder = (folder: FileHandle, name: string): string => `/proc/self/fd/${folder.fd}/${name}`;

function refuseOutside({ named, realPath }: ResolvedPath, project: string): void {
  if (!isInside(realPath, project) || realPath === project) {
    refuse(ERROR_CODES.privatePath, `\`${named}\` leads to \`${realPath}\`, which is not in the project`);
  }
  const guarded = path
    .relative(project, realPath)
    .split('/')
    .find((part) => PROTECTED_NAMES.includes(part));
  if (guarded) refuse(ERROR_CODES.privatePath, `\`${guarded}\` is protected; \`${named}\` is not written`);
}

/**
 * Where a change of a file of the project would take place. Throws a SandboxRefusal for what leads out of the project,
 * protected names, git folders, masked and write-denied paths. `project` is a real path.
 */
export async function resolveChange(
  given: string,
  scope: FileScope & { readonly denyWrite: readonly string[] },
): Promise<ResolvedPath> {
  const resolved = await resolvePath(given, scope);
  refuseOutside(resolved, scope.project);
  await refuseMasked(resolved, scope);
  await refuseMasked(resolved, { ...scope, masks: scope.denyWrite });
  await refuseGitFolder(resolved.realPath, scope.project);
  return resolved;
}

async function openStep(name: string, make: boolean): Promise<FileHandle> {
  return open(name, FOLDER_FLAGS).catch((error: unknown) => {
    if (errnoOf(error) !== 'ENOENT' || !make) throw error;
    return mkdir(name, NEW_FOLDER_MODE).then(() => open(name, FOLDER_FLAGS));
  });
}

/**
 * Opens the folder that holds `realPath`, folder by folder from the project; `make` adds missing ones.
 * SECURITY: each step is relative to a descriptor and follows no link, so that nothing swapped in meanwhile leads outside.
 */
export async function openParent(project: string, realPath: string, make: boolean): Promise<FileHandle> {
  let folder = await open(project, FOLDER_FLAGS);
  try {
    if ((await readlink(`/proc/self/fd/${folder.fd}`)) !== project) {
      refuse(ERROR_CODES.changedSinceRequest, `project \`${project}\` changed while it was opened`);
    }
    for (const part of path.relative(project, path.dirname(realPath)).split('/').filter(Boolean)) {
      const next = await openStep(inFolder(folder, part), make);
      await folder.close();
      folder = next;
    }
    return folder;
  } catch (error) {
    await folder.close();
    throw error;
  }
}
