import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { isInside, type Places } from '@countersign/sandbox';
import { findPlaces, statePath } from '../sandbox/find-places.ts';
import { gitPaths } from '../sandbox/git-folders.ts';
import { refuse } from '../sandbox/sandbox-error.ts';
import { scanProject } from '../sandbox/scan-project.ts';

type Ground = {
  readonly installation: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
};

/** SECURITY: files of processes and devices would show what a mask hides. */
const KERNEL_TREES = ['/proc', '/sys', '/dev'];

/** Masks of every file tool: the kernel's own trees and the state of the sandboxes. */
export const fixedMasks = (environment: Ground['environment'], home: string): readonly string[] => [
  ...KERNEL_TREES,
  statePath(environment, home),
];

/** Places of a file tool, under the rules of a command: the owner and the kind of the project. Throws a SandboxRefusal. */
export const checkGround = (project: string, ground: Ground): Promise<Places> =>
  findPlaces({ ...ground, project, profile: 'workspace-write' });

/** Refuses a target in a folder that holds a repository of the project under another name than `.git`. */
export async function refuseGitFolder(realPath: string, project: string): Promise<void> {
  const { repositories } = await scanProject(project, undefined);
  const folders = (await Promise.all([project, ...repositories].map(gitPaths))).flat();
  if (!folders.some((folder) => isInside(realPath, folder))) return;
  refuse(ERROR_CODES.privatePath, `\`${realPath}\` belongs to a git folder, which is read-only`);
}
