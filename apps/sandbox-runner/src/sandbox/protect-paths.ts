import { ERROR_CODES } from '@countersign/protocol/error-codes';
import {
  isInside,
  type Places,
  PROTECTED_NAMES,
  type Profile,
  writableRoots,
  writesProject,
} from '@countersign/sandbox';
import { gitPaths } from './git-folders.ts';
import { otherProjects } from './known-projects.ts';
import { covers, findMasks, findWriteDenied, type PathRules } from './path-rules.ts';
import { type Guard, type HeldGuards, holdGuards } from './placeholders.ts';
import { refuse } from './sandbox-error.ts';
import { type ProjectScan, scanProject } from './scan-project.ts';

const MAX_REPOSITORIES = 100;

export type ProtectionRequest = {
  readonly places: Places;
  readonly profile: Profile;
  readonly scan: ProjectScan;
  readonly rules: { readonly read: PathRules; readonly write: PathRules };
  /** Paths that are masked whatever the rules say. */
  readonly masks: readonly string[];
  /** Roots that a run of its own copy of does not share with the host. */
  readonly replaced: readonly string[];
};

export type Protection = {
  readonly guards: HeldGuards;
  readonly readOnly: readonly string[];
  readonly masks: Awaited<ReturnType<typeof findMasks>>;
};

function mergeGuards(guards: readonly Guard[]): Guard[] {
  const byFolder = Map.groupBy(guards, ({ folder }) => folder);
  return [...byFolder].map(([folder, all]) => ({ folder, names: [...new Set(all.flatMap(({ names }) => names))] }));
}

/** Roots of repositories whose names are protected: the project, what is nested in it, and other projects that can be reached. */
async function repositoriesOf(
  { places, profile, scan }: ProtectionRequest,
  roots: readonly string[],
): Promise<string[]> {
  const { project, state } = places;
  if (profile === 'full-access') return [];
  const others = otherProjects(state, project, roots);
  const apart = others.filter((other) => !isInside(other, project));
  const nested = (await Promise.all(apart.map((other) => scanProject(other, undefined)))).flatMap(
    ({ repositories }) => repositories,
  );
  const own = writesProject(profile) ? [project, ...scan.repositories] : [];
  const all = [...new Set([...own, ...others, ...nested])];
  if (all.length > MAX_REPOSITORIES) {
    refuse(
      ERROR_CODES.badRoot,
      `project \`${project}\` and the projects below its writable folders hold more than ${MAX_REPOSITORIES} ` +
        'repositories; use a smaller one',
    );
  }
  return all;
}

/**
 * Guards protected names and write-denied paths, and finds what must be read-only or masked. Throws a SandboxRefusal;
 * nothing is left behind then.
 */
export async function protectPaths(request: ProtectionRequest): Promise<Protection> {
  const { places, profile, scan, rules, replaced } = request;
  const roots = writableRoots(profile, places).filter((root) => !replaced.includes(root));
  const repositories = await repositoriesOf(request, roots);
  const denied = await findWriteDenied(rules.write.literal);
  const wanted = denied.guards.filter(({ folder }) => roots.some((root) => isInside(folder, root)));
  const named = repositories.map((folder) => ({ folder, names: PROTECTED_NAMES }));
  const guards = await holdGuards(places.state, mergeGuards([...named, ...wanted]));
  try {
    const git = (await Promise.all(repositories.map(gitPaths))).flat();
    const written = scan.matches.filter((found) => covers(rules.write, found));
    const read = scan.matches.filter((found) => covers(rules.read, found));
    const masks = await findMasks([...rules.read.literal, ...read, ...request.masks]);
    return { guards, masks, readOnly: [...guards.paths, ...git, ...denied.existing, ...written] };
  } catch (error) {
    await guards.release();
    throw error;
  }
}
