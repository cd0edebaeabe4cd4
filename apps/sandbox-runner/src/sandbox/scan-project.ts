import { opendir, stat } from 'node:fs/promises';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { accountUid } from './account.ts';
import { errnoOf, refuse } from './sandbox-error.ts';

const MAX_ENTRIES = 400_000;
const MAX_DEPTH = 48;
const MAX_MATCHES = 2_000;
/** Folders that are not searched for repositories. */
const SKIPPED = new Set(['node_modules']);

export type ProjectScan = {
  /** Folders that hold a `.git`, without the project itself. */
  readonly repositories: readonly string[];
  /** Paths for which `wanted` was true. */
  readonly matches: readonly string[];
};

type Walk = { entries: number; readonly repositories: string[]; readonly matches: string[] };

async function refuseUnreadable(folder: string, error: unknown): Promise<void> {
  const found = await stat(folder).catch(() => undefined);
  if (!found || errnoOf(error) === 'ENOENT' || found.uid !== accountUid()) return;
  refuse(ERROR_CODES.badRoot, `folder \`${folder}\` of the project cannot be read; make it readable`);
}

async function children(folder: string, walk: Walk): Promise<{ name: string; isFolder: boolean }[]> {
  const found: { name: string; isFolder: boolean }[] = [];
  try {
    for await (const entry of await opendir(folder, { bufferSize: 256 })) {
      walk.entries += 1;
      if (walk.entries > MAX_ENTRIES) {
        refuse(
          ERROR_CODES.badRoot,
          `\`${folder}\` and its neighbours are more than ${MAX_ENTRIES} entries outside node_modules; use a smaller project`,
        );
      }
      found.push({ name: entry.name, isFolder: entry.isDirectory() });
    }
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    await refuseUnreadable(folder, error);
  }
  return found;
}

/**
 * Looks through the project for nested repositories and wanted paths, without following links. A project over the limits
 * is refused, never searched in part. A folder of another account that cannot be read cannot be written either. Nothing
 * is looked for below `levels` folders.
 */
export async function scanProject(
  project: string,
  wanted: (path: string) => boolean,
  levels: number = Number.POSITIVE_INFINITY,
): Promise<ProjectScan> {
  const walk: Walk = { entries: 0, repositories: [], matches: [] };
  const waiting: { folder: string; depth: number }[] = [{ folder: project, depth: 0 }];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { folder, depth } = next;
    if (depth > MAX_DEPTH) refuse(ERROR_CODES.badRoot, `folder \`${folder}\` is nested deeper than ${MAX_DEPTH}`);
    for (const { name, isFolder } of await children(folder, walk)) {
      const full = `${folder}/${name}`;
      if (wanted(full)) walk.matches.push(full);
      if (walk.matches.length > MAX_MATCHES) {
        refuse(ERROR_CODES.badRoot, `path rules match more than ${MAX_MATCHES} paths of the project; narrow them`);
      }
      if (name === '.git') {
        if (folder !== project) walk.repositories.push(folder);
      } else if (isFolder && depth + 1 < levels && !SKIPPED.has(name)) waiting.push({ folder: full, depth: depth + 1 });
    }
  }
  return { repositories: walk.repositories, matches: walk.matches };
}
