import { readFileSync } from 'node:fs';
import path from 'node:path';
import { importViolations, packageCycles } from './import-law.ts';
import { namedTestViolations } from './named-tests.ts';
import { purityViolations } from './purity.ts';
import { sizeViolations } from './sizes.ts';
import type { Violation } from './source-file.ts';
import { suppressionViolations } from './suppressions.ts';
import { readTree } from './tree.ts';

function allowedSuppressions(root: string): number {
  const { allowed } = JSON.parse(readFileSync(path.join(root, 'tools/suppressions.json'), 'utf8')) as {
    allowed?: unknown;
  };
  if (typeof allowed === 'number' && Number.isSafeInteger(allowed) && allowed >= 0) return allowed;
  throw new Error('`tools/suppressions.json` needs a whole number `allowed`');
}

/** All violations of the house rules below `root`. Throws when the tree or the stored count cannot be read. */
export function checkWorkspace(root: string): readonly Violation[] {
  const tree = readTree(root);
  return [
    ...importViolations(tree),
    ...packageCycles(tree),
    ...purityViolations(tree),
    ...sizeViolations(tree),
    ...namedTestViolations(root, tree),
    ...suppressionViolations(tree, allowedSuppressions(root)),
  ];
}
