import { expect, test } from 'vitest';
import { stillOnTheWay } from './use-typed-search.ts';

test.each<[what: string, given: readonly string[], found: string, left: readonly string[] | undefined]>([
  ['the only one', ['a'], 'a', []],
  ['an earlier one that comes late', ['a', 'ab', 'abc'], 'a', ['ab', 'abc']],
  ['a later one that overtook the others', ['a', 'ab', 'abc'], 'abc', []],
  ['one of somebody else', ['a', 'ab'], 'view', undefined],
  ['any, when nothing was given', [], 'view', undefined],
])('%s is told from a search that came from elsewhere', (_, given, found, left) => {
  expect(stillOnTheWay(given, found)).toEqual(left);
});
