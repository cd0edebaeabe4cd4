import path from 'node:path';
import { isInside } from '@countersign/sandbox';

/** How programs tell of a write that the file system refused, in the words of the C library and of Node. */
const REFUSED = /read-only file system|EROFS/i;
const MAX_NOTES = 20;

/** Whether the line names the path or something in it, absolute or from the project. */
function names(line: string, full: string, project: string): boolean {
  const spellings = isInside(full, project) ? [full, path.relative(project, full)] : [full];
  return spellings.some((text) => {
    const at = text === '' ? -1 : line.indexOf(text);
    const before = line.slice(0, Math.max(at, 0)).replace(/(^|[^\w.])\.\/$/, '$1');
    const isWhole = !/[\w.-]/.test(line[at + text.length] ?? '');
    return at >= 0 && isWhole && (path.isAbsolute(text) || !/[\w./-]$/.test(before));
  });
}

/**
 * What a command was told about a read-only file system, explained: the protected folder or file, outermost first, that its
 * output names. `output` is what the command printed.
 */
export function readOnlyNotes(
  output: string,
  { protectedPaths, project }: { readonly protectedPaths: readonly string[]; readonly project: string },
): readonly string[] {
  if (!REFUSED.test(output)) return [];
  const lines = output.split('\n').filter((line) => REFUSED.test(line));
  const named = protectedPaths.filter((full) => lines.some((line) => names(line, full, project)));
  const outer = [...new Set(named)].filter((full) => !named.some((other) => other !== full && isInside(full, other)));
  return outer
    .slice(0, MAX_NOTES)
    .map((full) => `write: \`${full}\` is protected and read-only for commands; a person changes it outside of them`);
}
