import { type Marks, markLine, marksOf } from './mark-lines.ts';
import { maskSecrets } from './mask-secrets.ts';
import { visibleText } from './visible-text.ts';

/** Most lines and characters that marking may make of one field. */
const MAX_LINES = 2_000;
const MAX_GROWTH = 4;

/** Room for one statement of a cut. */
const MAX_CUT_LINE = 100;

export type Field = {
  readonly label: string;
  /** Who says so; text of this product, never of a request. */
  readonly source: string;
  readonly text: string;
  /** Most characters after escaping; the middle goes first. */
  readonly limit: number;
};

export type FencedField = { readonly text: string; readonly cut: boolean };

function cutMiddle(text: string, limit: number, marks: Marks): FencedField {
  if (text.length <= limit) return { text, cut: false };
  const head = text.slice(0, Math.ceil((limit * 2) / 3));
  const tail = text.slice(text.length - Math.floor(limit / 3));
  return { text: `${head}\n${marks.cut(text.length - head.length - tail.length)}\n${tail}`, cut: true };
}

/**
 * Puts a field between its fences: secrets masked, unseen characters escaped, length bounded with the cut stated, comments
 * and look-alike headings marked, each line behind a bar. INVARIANT: `word` is random and made after the field was received.
 */
export function fence(field: Field, word: string): FencedField {
  const marks = marksOf(word);
  const bounded = cutMiddle(field.text, field.limit, marks);
  const shown = cutMiddle(visibleText(maskSecrets(bounded.text)), field.limit + MAX_CUT_LINE, marks);
  const lines = shown.text.split('\n').map((line) => markLine(line, marks));
  const marked = lines.map((line) => `| ${line}`).join('\n');
  const tooMuch = lines.length > MAX_LINES || marked.length > Math.max(field.limit * MAX_GROWTH, 4_000);
  const body = tooMuch ? `| ${marks.cut(field.text.length)}` : marked;
  const empty = field.text === '' ? ' (empty)' : '';
  return {
    text: `${field.label}, ${field.source}${empty}\n<<${word} ${field.label}\n${body}\n${word}>>`,
    cut: bounded.cut || shown.cut || tooMuch,
  };
}
