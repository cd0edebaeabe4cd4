import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Violation } from './source-file.ts';
import type { WorkspaceTree } from './tree.ts';

/** The document whose claims are each tied to tests. */
const DOCUMENT = 'docs/threat-model.md';

/** A row of the table: `| name | can | cannot |`. */
const ROW = /^\| ([^|]+) \|/;
/** A line of the list: `- name: …`. */
const ITEM = /^- ([^:]+): (.*)$/;
/** A test of a line: its file, and its title as the source has it. */
const NAMED = /`([\w\-./]+\.test\.tsx?)` “([^”]+)”/g;

const isHeading = (name: string): boolean => name === 'stolen' || /^-+$/.test(name);

/** Violations of one line of the list: no test at all, or a file or title that is not there. */
function itemProblems(tree: WorkspaceTree, text: string): string[] {
  const named = [...text.matchAll(NAMED)];
  if (named.length === 0) return ['names no test: write `path.test.ts` “title”'];
  return named.flatMap(([, file = '', title = '']) => {
    const found = tree.files.find((one) => one.path === file);
    if (!found) return [`names \`${file}\`, which does not exist`];
    return found.text.includes(title) ? [] : [`names “${title}”, which is no title in \`${file}\``];
  });
}

/**
 * Holds the threat model to its tests: every row of its table has a line in the list of tests, and every test that is named
 * there exists. A tree without the document passes.
 */
export function namedTestViolations(root: string, tree: WorkspaceTree): readonly Violation[] {
  const file = path.join(root, DOCUMENT);
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n');
  const at = (line: number, message: string): Violation => ({ path: DOCUMENT, line: line + 1, message });
  const items = new Map<string, number>();
  const found: Violation[] = [];
  lines.forEach((text, line) => {
    const [, name, rest] = ITEM.exec(text) ?? [];
    if (name === undefined || rest === undefined) return;
    items.set(name, line);
    found.push(...itemProblems(tree, rest).map((message) => at(line, `\`${name}\` ${message}`)));
  });
  lines.forEach((text, line) => {
    const name = ROW.exec(text)?.[1]?.trim() ?? '';
    if (name !== '' && !isHeading(name) && !items.has(name)) found.push(at(line, `the row \`${name}\` has no tests`));
  });
  return found;
}
