import type { Violation } from './source-file.ts';
import type { WorkspaceTree } from './tree.ts';

const FILE_LINES = 400;
const TEST_LINES = 600;

/** Files longer than the house allows, and files that the parser does not understand. */
export const sizeViolations = (tree: WorkspaceTree): Violation[] =>
  tree.files.flatMap(({ path, isTest, lines, parseErrors }) => {
    const limit = isTest ? TEST_LINES : FILE_LINES;
    const long = lines > limit ? [{ path, line: limit + 1, message: `${lines} lines, ${limit} are allowed` }] : [];
    return [...parseErrors.map((message) => ({ path, line: 1, message: `cannot be parsed: ${message}` })), ...long];
  });
