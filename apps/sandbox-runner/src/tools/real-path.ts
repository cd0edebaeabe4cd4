import { constants } from 'node:fs';
import { type FileHandle, lstat, open, readlink, realpath } from 'node:fs/promises';
import path from 'node:path';
import { normalisePath } from '@countersign/patterns';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { isInside } from '@countersign/sandbox';
import { covers, findMasks, type PathRules, parsePathRules } from '../sandbox/path-rules.ts';
import { errnoOf, refuse } from '../sandbox/sandbox-error.ts';

/** Where a file tool works. */
export type FileScope = {
  readonly project: string;
  readonly home: string;
  /** Path rules whose matches are neither read nor shown. */
  readonly masks: readonly string[];
};

/** A named path and where it leads. `realPath` of a missing one is where it would come to lie. */
export type ResolvedPath = { readonly named: string; readonly realPath: string; readonly exists: boolean };

const failed = (named: string, error: unknown): never =>
  refuse(ERROR_CODES.toolFailed, `\`${named}\` cannot be looked up (${errnoOf(error) ?? 'unknown'})`);

/** Follows every link of the path; relative paths start at the project. */
export async function resolvePath(given: string, { project, home }: FileScope): Promise<ResolvedPath> {
  if (given.includes('\0')) refuse(ERROR_CODES.invalidArguments, 'path holds a NUL character; remove it');
  const named = normalisePath(given, project, home);
  const missing: string[] = [];
  for (let at = named; ; at = path.dirname(at)) {
    try {
      return { named, realPath: path.join(await realpath(at), ...missing), exists: missing.length === 0 };
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT' || at === '/') return failed(named, error);
      const isLink = await lstat(at).then(
        (found) => found.isSymbolicLink(),
        () => false,
      );
      if (isLink) refuse(ERROR_CODES.toolFailed, `\`${at}\` is a link to nothing; remove it first`);
      missing.unshift(path.basename(at));
    }
  }
}

async function isMasked({ named, realPath }: ResolvedPath, masks: readonly string[], rules: PathRules) {
  if (covers(rules, named) || covers(rules, realPath)) return true;
  const { folders, files } = await findMasks(rules.literal);
  return masks.length > 0 && [...folders, ...files].some((masked) => isInside(realPath, masked));
}

/** Refuses a path that a mask covers by its name or by where it leads. */
export async function refuseMasked(resolved: ResolvedPath, scope: FileScope): Promise<void> {
  const rules = parsePathRules(scope.masks, scope);
  if (!(await isMasked(resolved, scope.masks, rules))) return;
  refuse(ERROR_CODES.privatePath, `\`${resolved.named}\` may not be read or written`);
}

/**
 * Opens a regular file for reading. SECURITY: the descriptor is compared with the path that was checked, so that a link
 * swapped in between is refused.
 */
export async function openChecked({ named, realPath }: ResolvedPath): Promise<FileHandle> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await open(realPath, flags).catch((error: unknown) => failed(named, error));
  try {
    const opened = await readlink(`/proc/self/fd/${handle.fd}`);
    if (opened !== realPath) refuse(ERROR_CODES.changedSinceRequest, `\`${named}\` changed while it was opened`);
    if (!(await handle.stat()).isFile()) refuse(ERROR_CODES.toolFailed, `\`${named}\` is not a regular file`);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}
