import { Buffer } from 'node:buffer';
import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readlink, realpath, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { err, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';
import { isInside, PROTECTED_NAMES } from '@countersign/sandbox';
import { accountUid, refuseHostRoot } from '../sandbox/account.ts';
import { errnoOf, refusalOf, refuse, type SandboxError } from '../sandbox/sandbox-error.ts';
import { digestOfFile } from './digest.ts';
import { type FileScope, type ResolvedPath, refuseMasked, resolvePath } from './real-path.ts';
import { refuseGitFolder } from './tool-ground.ts';

export type WriteInput = FileScope & {
  readonly path: string;
  readonly content: string;
  /** Path rules whose matches are not written. */
  readonly denyWrite?: readonly string[];
  /** SHA-256 that the file must have now; `absent` when there must be none. */
  readonly expected?: Uint8Array | 'absent';
  /** Aborted before the last step, nothing changes. */
  readonly signal?: AbortSignal;
};

const NEW_FILE_MODE = 0o644;
const NEW_FOLDER_MODE = 0o755;
const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const PERMISSIONS = 0o777;

const inFolder = (folder: FileHandle, name: string): string => `/proc/self/fd/${folder.fd}/${name}`;

function checkAllowed({ named, realPath }: ResolvedPath, project: string): void {
  if (!isInside(realPath, project) || realPath === project) {
    refuse(ERROR_CODES.privatePath, `\`${named}\` leads to \`${realPath}\`, which is not in the project`);
  }
  const guarded = path
    .relative(project, realPath)
    .split('/')
    .find((part) => PROTECTED_NAMES.includes(part));
  if (guarded) refuse(ERROR_CODES.privatePath, `\`${guarded}\` is protected; \`${named}\` is not written`);
}

async function openFolder(name: string): Promise<FileHandle> {
  return open(name, FOLDER_FLAGS).catch((error: unknown) => {
    if (errnoOf(error) !== 'ENOENT') throw error;
    return mkdir(name, NEW_FOLDER_MODE).then(() => open(name, FOLDER_FLAGS));
  });
}

/**
 * Opens the folder of the target, folder by folder from the project and making missing ones.
 * SECURITY: each step is relative to a descriptor and follows no link, so that nothing swapped in meanwhile leads outside.
 */
async function openParent(project: string, realPath: string): Promise<FileHandle> {
  let folder = await open(project, FOLDER_FLAGS);
  try {
    if ((await readlink(`/proc/self/fd/${folder.fd}`)) !== project) {
      refuse(ERROR_CODES.changedSinceRequest, `project \`${project}\` changed while it was opened`);
    }
    for (const part of path.relative(project, path.dirname(realPath)).split('/').filter(Boolean)) {
      const next = await openFolder(inFolder(folder, part));
      await folder.close();
      folder = next;
    }
    return folder;
  } catch (error) {
    await folder.close();
    throw error;
  }
}

/** Permissions of the file that is there; undefined when there is none. Refuses what is not as expected. */
async function examine(target: string, named: string, expected: WriteInput['expected']): Promise<number | undefined> {
  const changed = () =>
    refuse(ERROR_CODES.changedSinceRequest, `\`${named}\` changed after the decision; submit the call again`);
  const found = await lstat(target).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  });
  if (!found) return expected instanceof Uint8Array ? changed() : undefined;
  if (!found.isFile()) return refuse(ERROR_CODES.toolFailed, `\`${named}\` is not a regular file`);
  if (found.uid !== accountUid()) return refuse(ERROR_CODES.badOwner, `\`${named}\` belongs to uid ${found.uid}`);
  if (expected === 'absent') return changed();
  if (expected) {
    await using handle = await open(target, constants.O_RDONLY | constants.O_NOFOLLOW);
    const digest = await digestOfFile(handle);
    if (!digest || Buffer.compare(digest, expected) !== 0) return changed();
  }
  return found.mode & PERMISSIONS;
}

async function replace(folder: FileHandle, name: string, input: WriteInput): Promise<void> {
  const target = inFolder(folder, name);
  const mode = await examine(target, input.path, input.expected);
  const temporary = inFolder(folder, `.countersign-${crypto.randomUUID()}.tmp`);
  try {
    await using handle = await open(temporary, 'wx', mode === undefined ? NEW_FILE_MODE : 0o600);
    await handle.writeFile(input.content, 'utf8');
    if (mode !== undefined) await handle.chmod(mode);
    await handle.sync();
    if (input.signal?.aborted) refuse(ERROR_CODES.toolFailed, 'write was stopped; the file did not change');
    await rename(temporary, target);
    await folder.sync();
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/**
 * Writes a file of the project as the account of this process, whole or not at all. An existing file keeps its
 * permissions. Refused: what leads out of the project, protected names, masked and write-denied paths, a file that is not
 * as expected.
 */
export async function writeFileTool(input: WriteInput): Promise<Result<undefined, SandboxError>> {
  try {
    refuseHostRoot();
    const project = await realpath(input.project);
    const resolved = await resolvePath(input.path, input);
    checkAllowed(resolved, project);
    await refuseMasked(resolved, input);
    await refuseMasked(resolved, { ...input, masks: input.denyWrite ?? [] });
    await refuseGitFolder(resolved.realPath, project);
    await using folder = await openParent(project, resolved.realPath);
    await replace(folder, path.basename(resolved.realPath), input);
    return ok(undefined);
  } catch (error) {
    const { code, message } = refusalOf(error, ERROR_CODES.toolFailed);
    return err({ code, message: errnoOf(error) ? `\`${input.path}\` cannot be written (${errnoOf(error)})` : message });
  }
}
