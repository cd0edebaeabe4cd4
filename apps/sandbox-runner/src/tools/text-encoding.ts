import { Buffer } from 'node:buffer';

type Encoding = 'utf-8' | 'utf-16le' | 'utf-16be';

/** Text of a file with what is needed to write it back: encoding and byte order mark. */
export type DecodedText = { readonly text: string; readonly encoding: Encoding; readonly hasMark: boolean };

const MARKS: readonly (readonly [Encoding, readonly number[]])[] = [
  ['utf-8', [0xef, 0xbb, 0xbf]],
  ['utf-16le', [0xff, 0xfe]],
  ['utf-16be', [0xfe, 0xff]],
];

/** Decodes UTF-8, or UTF-16 with a mark. Undefined for anything else and for text with NUL: bytes would be lost. */
export function decodeText(bytes: Uint8Array): DecodedText | undefined {
  const found = MARKS.find(([, mark]) => mark.every((byte, index) => bytes[index] === byte));
  const [encoding, mark] = found ?? (['utf-8', []] as const);
  try {
    const text = new TextDecoder(encoding, { fatal: true, ignoreBOM: true }).decode(bytes.subarray(mark.length));
    return text.includes('\0') ? undefined : { text, encoding, hasMark: mark.length > 0 };
  } catch {
    return undefined;
  }
}

/** Bytes of a text in the form that `like` was decoded from. */
export function encodeText(text: string, like: Pick<DecodedText, 'encoding' | 'hasMark'>): Uint8Array {
  const mark = MARKS.find(([encoding]) => encoding === like.encoding)?.[1] ?? [];
  const body = Buffer.from(text, like.encoding === 'utf-8' ? 'utf8' : 'utf16le');
  if (like.encoding === 'utf-16be') body.swap16();
  return like.hasMark ? Buffer.concat([Buffer.from(mark), body]) : body;
}
