import fc from 'fast-check';
import { expect, test } from 'vitest';
import { mergeLines } from './merge-lines.ts';

const base = 'a\nb\nc\nd\ne\nf\n';

test.each([
  ['changes of lines apart', base.replace('a', 'A'), base.replace('f', 'F'), 'A\nb\nc\nd\ne\nF\n'],
  ['an insertion and a removal apart', `new\n${base}`, base.replace('e\n', ''), 'new\na\nb\nc\nd\nf\n'],
  ['one side that changed nothing', base, base.replace('c', 'C'), base.replace('c', 'C')],
  ['a last line without a line break', `${base}g`, base.replace('a', 'A'), 'A\nb\nc\nd\ne\nf\ng'],
])('%s are brought together', (_, ours, theirs, merged) => {
  expect(mergeLines(base, ours, theirs)).toBe(merged);
});

test.each([
  ['the same line', base.replace('c', 'X'), base.replace('c', 'Y')],
  ['neighbouring lines', base.replace('c', 'X'), base.replace('d', 'Y')],
  ['an insertion at the place of a change', base.replace('c\n', 'c\nnew\n'), base.replace('d', 'Y')],
  ['a removal of the place of a change', '', base.replace('d', 'Y')],
])('%s are a conflict', (_, ours, theirs) => {
  expect(mergeLines(base, ours, theirs)).toBe(undefined);
});

test('a merge never depends on the order of the sides, and one side alone is taken as it is', () => {
  const text = fc.array(fc.constantFrom('a\n', 'b\n', 'c\n', 'd\n'), { maxLength: 8 }).map((lines) => lines.join(''));
  fc.assert(
    fc.property(text, text, text, (from, ours, theirs) => {
      expect(mergeLines(from, ours, theirs)).toBe(mergeLines(from, theirs, ours));
      expect(mergeLines(from, ours, from)).toBe(ours);
    }),
  );
});
