import { realpath, stat } from 'node:fs/promises';
import { compilePathGlob, isInside } from '@countersign/patterns';
import { scanProject } from './scan-project.ts';

type Base = { readonly project: string; readonly home: string };

const segments = (text: string): number => text.split('/').filter(Boolean).length;

async function isFolder(name: string): Promise<boolean> {
  return (await stat(name).catch(() => undefined))?.isDirectory() ?? false;
}

/**
 * Paths outside the project that read rules with wildcards cover, for rules that start with a folder. Rules that start
 * with a wildcard speak about the project alone. Throws a SandboxRefusal when there is too much to look through.
 */
export async function findOuterMasks(sources: readonly string[], base: Base): Promise<readonly string[]> {
  const found: string[] = [];
  for (const source of sources.filter((text) => /^[/~]/.test(text))) {
    const trunk = source.endsWith('/**') ? source.slice(0, -3) : source;
    if (!/[*?]/.test(trunk)) continue;
    const glob = compilePathGlob(trunk, { ...base, cwd: base.project });
    const folder = glob.literalPrefix;
    if (folder === '/' || isInside(folder, base.project) || !(await isFolder(folder))) continue;
    const home = trunk.startsWith('~') ? segments(base.home) - 1 : 0;
    const levels = trunk.includes('**') ? Number.POSITIVE_INFINITY : segments(trunk) + home - segments(folder);
    const root = await realpath(folder);
    const named = (full: string) => folder + full.slice(root.length);
    found.push(...(await scanProject(root, (full) => glob.matches(named(full)), levels)).matches);
  }
  return found;
}
