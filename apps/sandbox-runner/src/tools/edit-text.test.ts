import fc from 'fast-check';
import { expect, test } from 'vitest';
import { editText } from './edit-text.ts';
import { decodeText, encodeText } from './text-encoding.ts';

const crlf = Array.from({ length: 40 }, (_, at) => `line ${at + 1}\r\n`).join('');

test.each([
  ['one line of a CRLF file', crlf, 'line 20', 'twenty', crlf.replace('line 20\r', 'twenty\r')],
  [
    'two lines of a CRLF file, given with LF',
    crlf,
    'line 20\nline 21\n',
    'a\nb\nc\n',
    crlf.replace('line 20\r\nline 21\r\n', 'a\r\nb\r\nc\r\n'),
  ],
  ['two lines of an LF file, given with CRLF', 'a\nb\nc\n', 'a\r\nb', 'x\r\ny', 'x\ny\nc\n'],
  ['an LF line of a mixed file', 'a\r\nb\nc\nd\r\n', 'b\nc', 'B\nC', 'a\r\nB\nC\nd\r\n'],
  ['the line break itself', 'a\r\nb', 'a\nb', 'ab', 'ab'],
  ['text that `$&` would repeat', 'price', 'price', "$& $1 $'", "$& $1 $'"],
])('%s is replaced and nothing else', (_, text, oldText, newText, after) => {
  expect(editText(text, oldText, newText)).toEqual({ ok: true, value: after });
});

test.each([
  ['not there', 'abc', 'x', 'not_found'],
  ['there twice', 'a b a', 'a', 'not_unique'],
  ['there twice, overlapping', 'aaa', 'aa', 'not_unique'],
  ['there twice with different line endings', 'a\r\nb a\nb', 'a\nb', 'not_unique'],
])('a text that is %s is not replaced', (_, text, oldText, error) => {
  expect(editText(text, oldText, 'y')).toEqual({ ok: false, error });
});

test('an edit keeps every character outside the match, whatever the line endings', () => {
  const piece = fc.constantFrom('a', 'b', 'é', '\n', '\r\n', '\r', ' ', '😀');
  const pieces = fc.array(piece, { maxLength: 12 }).map((parts) => parts.join(''));
  fc.assert(
    fc.property(pieces, pieces, (before, after) => {
      const text = `${before}NEEDLE${after}`;
      expect(editText(text, 'NEEDLE', 'thread')).toEqual({ ok: true, value: `${before}thread${after}` });
    }),
  );
});

test.each(['utf-8', 'utf-16le', 'utf-16be'] as const)(
  'a text in %s with a mark is written back byte for byte',
  (encoding) => {
    const bytes = encodeText('é\r\n😀', { encoding, hasMark: true });
    const decoded = decodeText(bytes);
    expect(decoded).toEqual({ text: 'é\r\n😀', encoding, hasMark: true });
    expect(decoded && Buffer.compare(encodeText(decoded.text, decoded), bytes)).toBe(0);
  },
);

test.each([
  ['Latin-1', Buffer.from([0x61, 0xe9, 0x0a])],
  ['binary', Buffer.from([0x61, 0, 0x62])],
])('%s is not taken for text', (_, bytes) => {
  expect(decodeText(bytes)).toBe(undefined);
});
