import { diffWordsWithSpace, parsePatch } from 'diff';

/** A stretch of a line; `changed` is what the other side does not have. */
export type Piece = { readonly text: string; readonly changed: boolean };
/** A line of one side with its number in the file. */
export type Side = { readonly number: number; readonly pieces: readonly Piece[]; readonly changed: boolean };
/** One line of the comparison. `gap` counts unchanged lines that stand between hunks. */
export type DiffRow =
  | { readonly kind: 'lines'; readonly before: Side | undefined; readonly after: Side | undefined }
  | { readonly kind: 'gap'; readonly lines: number; readonly from: number }
  /** `after` is where the note stands: the next line numbers of both sides. */
  | { readonly kind: 'note'; readonly text: string; readonly after: string };

const MAX_WORD_DIFF = 2_000;
const whole = (text: string, changed = false): readonly Piece[] => [{ text, changed }];

/** Both lines cut into words that stay and words that change. */
function wordPieces(before: string, after: string): readonly [readonly Piece[], readonly Piece[]] {
  if (before.length + after.length > MAX_WORD_DIFF) return [whole(before, true), whole(after, true)];
  const parts = diffWordsWithSpace(before, after);
  const side = (left: boolean) =>
    parts
      .filter((part) => (left ? !part.added : !part.removed))
      .map(({ value, added, removed }) => ({ text: value, changed: Boolean(added || removed) }));
  return [side(true), side(false)];
}

type Place = { before: number; after: number };

/** Removed lines beside the added ones that replace them. */
function changedRows(removed: readonly string[], added: readonly string[], at: Place): DiffRow[] {
  return Array.from({ length: Math.max(removed.length, added.length) }, (_, index): DiffRow => {
    const [old, next] = [removed[index], added[index]];
    const [left, right] =
      old !== undefined && next !== undefined ? wordPieces(old, next) : [whole(old ?? ''), whole(next ?? '')];
    return {
      kind: 'lines',
      before: old === undefined ? undefined : { number: at.before++, pieces: left, changed: true },
      after: next === undefined ? undefined : { number: at.after++, pieces: right, changed: true },
    };
  });
}

function hunkRows(lines: readonly string[], at: Place): DiffRow[] {
  const rows: DiffRow[] = [];
  let removed: string[] = [];
  let added: string[] = [];
  const flush = () => {
    rows.push(...changedRows(removed, added, at));
    removed = [];
    added = [];
  };
  for (const line of lines) {
    const text = line.slice(1);
    if (line.startsWith('-')) {
      if (added.length > 0) flush();
      removed.push(text);
    } else if (line.startsWith('+')) added.push(text);
    else {
      flush();
      if (line.startsWith('\\')) rows.push({ kind: 'note', text: text.trim(), after: `${at.before}|${at.after}` });
      else {
        const side = (number: number) => ({ number, pieces: whole(text), changed: false });
        rows.push({ kind: 'lines', before: side(at.before++), after: side(at.after++) });
      }
    }
  }
  flush();
  return rows;
}

/** Lines of both sides of a unified diff of one file; undefined when the text is not one. */
export function diffRows(diff: string): readonly DiffRow[] | undefined {
  let hunks: ReturnType<typeof parsePatch>[number]['hunks'];
  try {
    hunks = parsePatch(diff).flatMap((file) => file.hunks);
  } catch {
    return undefined;
  }
  if (hunks.length === 0) return undefined;
  const rows: DiffRow[] = [];
  let beforeEnd = 1;
  for (const hunk of hunks) {
    if (hunk.oldStart > beforeEnd) rows.push({ kind: 'gap', lines: hunk.oldStart - beforeEnd, from: beforeEnd });
    rows.push(...hunkRows(hunk.lines, { before: Math.max(1, hunk.oldStart), after: Math.max(1, hunk.newStart) }));
    beforeEnd = hunk.oldStart + hunk.oldLines;
  }
  return rows;
}
