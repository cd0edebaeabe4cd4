import { expect, test } from 'vitest';
import { unifiedDiff } from './unified-diff.ts';

const bytes = (text: string) => new TextEncoder().encode(text);

test('a change of lines has the two file names and its hunks, nothing else', () => {
  expect(unifiedDiff('/p/a', bytes('one\n'), bytes('two\n'))).toBe('--- /p/a\n+++ /p/a\n@@ -1,1 +1,1 @@\n-one\n+two\n');
});

test.each([
  ['nothing changes', bytes('same\n'), bytes('same\n'), 'the content stays the same: 5 bytes'],
  ['an empty file is made', 'absent', bytes(''), 'an empty file is made'],
  ['an empty file is removed', bytes(''), 'absent', 'an empty file is removed'],
  [
    'bytes are no text',
    new Uint8Array([0, 255, 1]),
    bytes('x'),
    'the whole content changes and cannot be shown as text: 3 bytes before, 1 bytes after',
  ],
] as const)('a diff without lines says why: %s', (_title, before, after, said) => {
  expect(unifiedDiff('/p/a', before, after).split('\n').slice(2)).toEqual([said, '']);
});

test('a line break in a file name forges no line', () => {
  const lines = unifiedDiff('/p/a\n+forged', bytes('1\n'), bytes('2\n')).split('\n');
  expect(lines).toHaveLength(6);
  expect(lines[0]).toContain('u{a}+forged');
});
