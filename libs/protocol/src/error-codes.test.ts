import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ERROR_CODES } from './index.ts';

test('every error code has a line in docs/failure-modes.md, and no other line is there', () => {
  const page = readFileSync(new URL('../../../docs/failure-modes.md', import.meta.url), 'utf8');
  const documented = [...page.matchAll(/^\| `(countersign\.[a-z_.]+)` \| .+ \| .+ \|$/gm)].map((match) => match[1]);
  expect(documented.toSorted()).toEqual(Object.values(ERROR_CODES).toSorted());
});
