import { expect, test } from 'vitest';
import { visibleBytes } from './visible-bytes.ts';

test.each([
  ['text as it is', Buffer.from('é 😀\n\tz'), 'é 😀\n\tz'],
  ['a Latin-1 byte', Buffer.from([0x61, 0xe9, 0x62]), 'a\\xE9b'],
  ['a sequence that is cut off', Buffer.from([0xe2, 0x82]), '\\xE2\\x82'],
  ['an overlong form', Buffer.from([0xc0, 0xaf]), '\\xC0\\xAF'],
  ['NUL and escape', Buffer.from('\0\x1b[2J'), '\\x00\\x1B[2J'],
  ['a carriage return that would hide a line', Buffer.from('evil\rgood\r\n'), 'evil\\x0Dgood\\x0D\n'],
  ['marks that reorder text', Buffer.from('a\u202eb'), 'a\\u{202E}b'],
])('%s is visible', (_, bytes, text) => {
  expect(visibleBytes(bytes)).toBe(text);
});
