import { type Violation, violationAt } from './source-file.ts';
import type { WorkspaceTree } from './tree.ts';

const MARK = /^[\s*]*(?:biome-ignore|@ts-(?:ignore|expect-error|nocheck))/;
const WITH_REASON = /^[\s*]*(?:biome-ignore(?:-all|-start|-end)?\s+[\w/]+(?:\([^)]*\))?\s*:|@ts-[\w-]+)\s*(\S.*)/;

/** Suppressions without a reason, and a count of suppressions above `allowed`. */
export function suppressionViolations(tree: WorkspaceTree, allowed: number): Violation[] {
  const found = tree.files.flatMap((file) =>
    file.comments.filter(({ text }) => MARK.test(text)).map((comment) => ({ file, comment })),
  );
  const bare = found.filter(({ comment }) => {
    const reason = WITH_REASON.exec(comment.text)?.[1] ?? '';
    return !/[a-z]{3}/i.test(reason) || reason.startsWith('<explanation>');
  });
  const messages = bare.map(({ file, comment }) => violationAt(file, comment.start, 'a suppression needs a reason'));
  if (found.length <= allowed) return messages;
  const message = `${found.length} suppressions, ${allowed} are allowed; mend the code instead`;
  return [...messages, { path: 'tools/suppressions.json', line: 1, message }];
}
