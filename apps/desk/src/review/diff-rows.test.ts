import { createTwoFilesPatch } from 'diff';
import { expect, test } from 'vitest';
import { diffRows } from './diff-rows.ts';

const shown = (before: string, after: string) =>
  diffRows(createTwoFilesPatch('a', 'a', before, after, undefined, undefined, { context: 1 }))?.map((row) => {
    if (row.kind !== 'lines') return row.kind === 'gap' ? `…${row.lines}` : `(${row.text})`;
    const side = (found: typeof row.before) =>
      found
        ? `${found.number}${found.pieces.map(({ text, changed }) => (changed ? `[${text}]` : text)).join('')}`
        : '-';
    return `${side(row.before)} | ${side(row.after)}`;
  });

test('a changed line stands beside its replacement with the changed words marked', () => {
  expect(shown('a\nport = 80\nz\n', 'a\nport = 8080\nz\n')).toEqual([
    '1a | 1a',
    '2port = [80] | 2port = [8080]',
    '3z | 3z',
  ]);
});

test('added and removed lines have nothing beside them, and left-out lines are counted', () => {
  expect(shown('1\n2\n3\n4\n5\n', '1\n2\n3\n4\n4b\n5\n')).toEqual(['…3', '4'.concat('4 | 44'), '- | 54b', '55 | 65']);
  expect(shown('', 'x\n')).toEqual(['- | 1x']);
});

test('a missing line break at the end is told', () => {
  expect(shown('a\n', 'a')?.some((row) => row.startsWith('(No newline'))).toBe(true);
});

test('text that is no diff is not shown as one', () => {
  expect(diffRows('the whole content changes and cannot be shown as text')).toBeUndefined();
});
