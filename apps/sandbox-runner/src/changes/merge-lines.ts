import { diffArrays } from 'diff';

const TIMEOUT_MS = 2_000;

/** Lines `from` to `to` (excluded) of the base become `lines`. */
type Edit = { readonly from: number; readonly to: number; readonly lines: readonly string[] };

const linesOf = (text: string): string[] => (text === '' ? [] : text.split(/(?<=\n)/));

function editsOf(base: string[], other: string[]): Edit[] | undefined {
  const parts = diffArrays(base, other, { timeout: TIMEOUT_MS });
  if (!parts) return undefined;
  const edits: Edit[] = [];
  let at = 0;
  let open: { from: number; to: number; lines: string[] } | undefined;
  for (const { added, removed, value } of parts) {
    if (!added && !removed) {
      at += value.length;
      open = undefined;
      continue;
    }
    if (!open) {
      open = { from: at, to: at, lines: [] };
      edits.push(open);
    }
    if (added) open.lines.push(...value);
    else {
      at += value.length;
      open.to = at;
    }
  }
  return edits;
}

/** Edits that share a line, or meet without a line between them. */
const collide = (left: Edit, right: Edit): boolean => left.from <= right.to && right.from <= left.to;

/**
 * Brings the changes `base → ours` and `base → theirs` together. Undefined when they touch the same or neighbouring lines,
 * or when the comparison takes too long.
 */
export function mergeLines(base: string, ours: string, theirs: string): string | undefined {
  const lines = linesOf(base);
  const left = editsOf(lines, linesOf(ours));
  const right = editsOf(lines, linesOf(theirs));
  if (!left || !right || left.some((edit) => right.some((other) => collide(edit, other)))) return undefined;
  const merged: string[] = [];
  let at = 0;
  for (const edit of [...left, ...right].sort((a, b) => a.from - b.from)) {
    merged.push(...lines.slice(at, edit.from), ...edit.lines);
    at = edit.to;
  }
  return [...merged, ...lines.slice(at)].join('');
}
