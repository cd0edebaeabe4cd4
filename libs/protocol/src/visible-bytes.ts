/** Bytes of the UTF-8 sequence that its first byte announces; 0 for one that begins none. */
function sequenceLength(first: number): number {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

const hidden = (code: number, digits: number): string => code.toString(16).toUpperCase().padStart(digits, '0');

/** SECURITY: a control or format character could drive a terminal or reorder what a person reads. */
const shown = (text: string): string =>
  text.replace(/[^\n\t\P{Cc}]|\p{Cf}/gu, (c) => {
    const code = c.codePointAt(0) ?? 0;
    return code < 0x100 ? `\\x${hidden(code, 2)}` : `\\u{${hidden(code, 4)}}`;
  });

/**
 * Text of an output for people: UTF-8 as it is, every byte that is not valid UTF-8 as `\xHH`, control and format characters
 * except line break and tab as `\xHH` or `\u{HHHH}`. Nothing is left out.
 */
export function visibleBytes(bytes: Uint8Array): string {
  const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  try {
    return shown(strict.decode(bytes));
  } catch {
    // Some bytes are not text; they are looked at one by one.
  }
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = sequenceLength(bytes[at] ?? 0);
    try {
      if (length === 0) throw new TypeError('no sequence');
      parts.push(shown(strict.decode(bytes.subarray(at, at + length))));
      at += length;
    } catch {
      parts.push(`\\x${hidden(bytes[at] ?? 0, 2)}`);
      at += 1;
    }
  }
  return parts.join('');
}
