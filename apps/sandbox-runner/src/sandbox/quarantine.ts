import { mkdir, rename } from 'node:fs/promises';
import path from 'node:path';
import type { PreparedRun } from './prepare-run.ts';
import { scanProject } from './scan-project.ts';

const MAX_MOVED = 200;

/**
 * Moves what a command made against a write rule with wildcards out of the project, and names it. Literal rules need
 * none of this: their paths were read-only while the command ran.
 */
export async function quarantineViolations(prepared: PreparedRun): Promise<readonly string[]> {
  const { wild } = prepared.writeRules;
  if (wild.length === 0) return [];
  const before = new Set(prepared.writeMatches);
  const { project, state } = prepared.places;
  const scan = await scanProject(project, (full) => !before.has(full) && wild.some((glob) => glob.matches(full)));
  const folder = path.join(state, 'quarantine', crypto.randomUUID());
  const violations: string[] = [];
  for (const [index, full] of scan.matches.slice(0, MAX_MOVED).entries()) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const moved = await rename(full, path.join(folder, String(index))).then(
      () => true,
      () => false,
    );
    violations.push(moved ? `write rule: \`${full}\` moved to quarantine` : `write rule: \`${full}\` is still there`);
  }
  return violations;
}
