/**
 * A piece of a text as the desk shows it. `hidden` stands for characters that a reader would not see, `blanks` for a run
 * of blanks. `start` and `end` are places in the original text.
 */
export type VisiblePart = {
  readonly text: string;
  readonly kind: 'plain' | 'hidden' | 'blanks';
  readonly start: number;
  readonly end: number;
};

/** Control, format, unassigned and private characters, unusual spaces, fillers, lone surrogates; runs of four or more blanks. Tabs and newlines stay. */
const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u00a0\u115f\u1160\u1680\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\uffa0]|\u034f|[\ufe00-\ufe0e]|[\u{e0100}-\u{e01ef}]| {4,}/gu;
const KEPT = new Set(['\n', '\t']);

const isIndent = (text: string, index: number, length: number): boolean =>
  length <= 40 && (index === 0 || text[index - 1] === '\n') && /\S/.test(text[index + length] ?? '\n');

/** A joiner inside one emoji, which the policy engine accepts as well. */
const joinsEmoji = (text: string, index: number): boolean =>
  text[index] === '\u200d' &&
  /(?:\p{Extended_Pictographic}|\p{Emoji_Modifier}|\ufe0f)$/u.test(text.slice(Math.max(0, index - 4), index)) &&
  /^\p{Extended_Pictographic}/u.test(text.slice(index + 1, index + 3));

const nameOf = (found: string): string =>
  found.startsWith(' ')
    ? `␠×${found.length}`
    : `⟨U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟩`;

/**
 * Splits `text` so that nothing in it can hide: every invisible or direction-changing character becomes its code point,
 * every run of four or more blanks its count, except the indentation of a line up to 40 wide. Joining the plain parts gives
 * the visible characters unchanged.
 */
export function visibleParts(text: string): VisiblePart[] {
  const parts: VisiblePart[] = [];
  let at = 0;
  for (const match of text.matchAll(HIDDEN)) {
    const found = match[0];
    const blanks = found.startsWith(' ');
    if (KEPT.has(found) || joinsEmoji(text, match.index)) continue;
    if (blanks && isIndent(text, match.index, found.length)) continue;
    if (match.index > at) parts.push({ text: text.slice(at, match.index), kind: 'plain', start: at, end: match.index });
    const end = match.index + found.length;
    parts.push({ text: nameOf(found), kind: blanks ? 'blanks' : 'hidden', start: match.index, end });
    at = end;
  }
  if (at < text.length) parts.push({ text: text.slice(at), kind: 'plain', start: at, end: text.length });
  return parts;
}

/** The text on one line with everything invisible named: for lists, titles and notifications. */
export const plainVisible = (text: string): string =>
  visibleParts(text.replaceAll('\n', '⏎').replaceAll('\t', '⇥'))
    .map((part) => part.text)
    .join('');
