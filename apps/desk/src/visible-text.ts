/** A piece of text as the desk shows it; `hidden` pieces stand for characters that a reader would not see. */
export type VisiblePart = { readonly text: string; readonly hidden: boolean };

/** Control, format, unusual space and bidirectional characters; runs of four or more blanks. Tabs and newlines stay. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]| {4,}/gu;
const KEPT = new Set(['\n', '\t']);

const name = (found: string): string =>
  found.startsWith(' ')
    ? `␠×${found.length}`
    : `⟨U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟩`;

/**
 * Splits `text` so that nothing in it can hide: every invisible or direction-changing character becomes its code point,
 * every run of blanks its count. Joining the parts that are not hidden gives the visible characters unchanged.
 */
export function visibleParts(text: string): VisiblePart[] {
  const parts: VisiblePart[] = [];
  let at = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (KEPT.has(match[0])) continue;
    if (match.index > at) parts.push({ text: text.slice(at, match.index), hidden: false });
    parts.push({ text: name(match[0]), hidden: true });
    at = match.index + match[0].length;
  }
  if (at < text.length) parts.push({ text: text.slice(at), hidden: false });
  return parts;
}
