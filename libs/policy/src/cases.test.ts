import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { evaluateCase, type PolicyCase, runCases } from './index.ts';

const folder = new URL('../../../vectors/policy/', import.meta.url);
const text = ['cases.jsonl', 'more.jsonl', 'kinds.jsonl', 'attacks.jsonl']
  .map((name) => readFileSync(new URL(name, folder), 'utf8'))
  .join('\n');
const open = new Set(JSON.parse(readFileSync(new URL('open.json', folder), 'utf8')) as string[]);
const cases = text
  .split('\n')
  .filter((line) => line !== '')
  .map((line) => JSON.parse(line) as PolicyCase);

describe('the case file', () => {
  it.each(cases.filter((c) => !open.has(c.id)))('$id is decided as the contract says', (c) => {
    const answer = evaluateCase(c);
    expect(c.expectAny ?? [c.expect], answer.reasons.join('; ')).toContain(answer.effect);
  });
  it('fails exactly where the list of open cases says', () => {
    expect(
      new Set(
        runCases(text)
          .answers.filter((a) => !a.ok)
          .map((a) => a.id),
      ),
    ).toEqual(open);
  });
});
