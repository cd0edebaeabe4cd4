import { expect, test } from 'vitest';
import { en } from './en.ts';
import { zh } from './zh.ts';

const holes = (text: string) => [...text.matchAll(/\{\{(\w+)\}\}/g)].map((found) => found[1]).sort();

test('every text has the same holes in both languages, and none is empty', () => {
  const english: Record<string, string> = en;
  const different = Object.entries(zh).filter(
    ([key, text]) => text === '' || holes(text).join() !== holes(english[key] ?? '').join(),
  );
  expect(different).toEqual([]);
});
