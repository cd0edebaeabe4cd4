import { type Dir, opendirSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { accountUid } from './account.ts';
import { linkStatOf, statOf } from './look-up.ts';
import { errnoOf, refuse } from './sandbox-error.ts';

const MAX_ENTRIES = 400_000;
/** Other work of this process is let through after so many entries. */
const ENTRIES_PER_TURN = 2_000;
const MAX_DEPTH = 48;
const MAX_MATCHES = 2_000;
/** Folder that is not searched for repositories. */
const MODULES = 'node_modules';

export type ProjectScan = {
  /** Folders that hold a `.git`, without the project itself. */
  readonly repositories: readonly string[];
  /** Paths for which `wanted` was true. */
  readonly matches: readonly string[];
};

type Walk = { entries: number; readonly repositories: string[]; readonly matches: string[] };

function refuseUnreadable(folder: string, error: unknown): void {
  const found = statOf(folder);
  if (!found || errnoOf(error) === 'ENOENT' || found.uid !== accountUid()) return;
  refuse(ERROR_CODES.badRoot, `folder \`${folder}\` of the project cannot be read; make it readable`);
}

/** SECURITY: what has a name that cannot be written as text would be passed over: repositories in it, and a mask on it. */
function refuseNameless(full: string): void {
  if (!full.includes('\uFFFD') || linkStatOf(full)) return;
  refuse(ERROR_CODES.badRoot, `\`${full}\` has a name that is not UTF-8; rename it`);
}

function children(folder: string, walk: Walk): { name: string; isFolder: boolean }[] {
  const found: { name: string; isFolder: boolean }[] = [];
  let opened: Dir | undefined;
  try {
    opened = opendirSync(folder, { bufferSize: 256 });
    for (let entry = opened.readSync(); entry; entry = opened.readSync()) {
      walk.entries += 1;
      if (walk.entries > MAX_ENTRIES) {
        refuse(
          ERROR_CODES.badRoot,
          `\`${folder}\` and its neighbours are more than ${MAX_ENTRIES} entries (node_modules counts only where path rules ` +
            'have wildcards); use a smaller project or rules without wildcards',
        );
      }
      const isFolder = entry.isDirectory();
      if (isFolder) refuseNameless(`${folder}/${entry.name}`);
      found.push({ name: entry.name, isFolder });
    }
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    refuseUnreadable(folder, error);
  } finally {
    opened?.closeSync();
  }
  return found;
}

/** Keeps a wanted path. Throws a SandboxRefusal when there are too many of them, or when nothing could be done about it. */
function keepMatch(walk: Walk, full: string): void {
  refuseNameless(full);
  walk.matches.push(full);
  if (walk.matches.length > MAX_MATCHES) {
    refuse(ERROR_CODES.badRoot, `path rules match more than ${MAX_MATCHES} paths of the project; narrow them`);
  }
}

/**
 * Looks through the project for nested repositories and wanted paths, without following links. A project over the limits
 * is refused, never searched in part. A folder of another account that cannot be read cannot be written either. Nothing
 * is looked for below `levels` folders; in node_modules only wanted paths are, where there are any.
 */
export async function scanProject(
  project: string,
  wanted: ((path: string) => boolean) | undefined,
  levels: number = Number.POSITIVE_INFINITY,
): Promise<ProjectScan> {
  const walk: Walk = { entries: 0, repositories: [], matches: [] };
  const waiting: { folder: string; depth: number; modules?: boolean }[] = [{ folder: project, depth: 0 }];
  let pause = ENTRIES_PER_TURN;
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { folder, depth, modules = false } = next;
    if (depth > MAX_DEPTH) refuse(ERROR_CODES.badRoot, `folder \`${folder}\` is nested deeper than ${MAX_DEPTH}`);
    if (walk.entries > pause) {
      pause = walk.entries + ENTRIES_PER_TURN;
      await nextTurn();
    }
    for (const { name, isFolder } of children(folder, walk)) {
      const full = `${folder}/${name}`;
      if (wanted?.(full)) keepMatch(walk, full);
      const below = { folder: full, depth: depth + 1, modules: modules || name === MODULES };
      if (name === '.git' && !modules) {
        if (folder !== project) walk.repositories.push(folder);
      } else if (isFolder && depth + 1 < levels && (wanted || !below.modules)) waiting.push(below);
    }
  }
  return { repositories: walk.repositories, matches: walk.matches };
}
