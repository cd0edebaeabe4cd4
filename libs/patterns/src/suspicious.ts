const EMOJI = /\p{Extended_Pictographic}/u;
const UNUSUAL =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u00a0\u00ad\u061c\u115f\u1160\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufeff\uffa0\ufff0-\uffff\u{e0000}-\u{e007f}]/u;

/** The first code point that could make a text read differently from what it does, escaped; undefined if none. */
export function findSuspicious(text: string): string | undefined {
  if (/^[\t\n\u0020-\u007e]*$/.test(text)) return undefined;
  const points = Array.from(text);
  for (let i = 0; i < points.length; i++) {
    const c = points[i] ?? '';
    if (c.length === 1 && c >= '\ud800' && c <= '\udfff') return escapePoint(c);
    if (!UNUSUAL.test(c) && c !== '\u034f' && !(c >= '\ufe00' && c <= '\ufe0f')) continue;
    const before = points[i - 1] === '\ufe0f' ? points[i - 2] : points[i - 1];
    const joins = c === '\u200d' && EMOJI.test(before ?? '') && EMOJI.test(points[i + 1] ?? '');
    const varies = c === '\ufe0f' && EMOJI.test(points[i - 1] ?? '');
    if (!joins && !varies) return escapePoint(c);
  }
  return undefined;
}

const escapePoint = (c: string): string => `U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
