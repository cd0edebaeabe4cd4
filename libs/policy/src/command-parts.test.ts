import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { commandParts } from './command-parts.ts';
import { decide } from './decide.ts';
import { defaultFacts } from './facts.ts';
import { loadPolicySet } from './load.ts';

const loaded = loadPolicySet({
  managed: {
    mode: 'dev',
    denyRules: [{ toolName: 'bash', pattern: 'git push *', id: 'no-push' }],
    askRules: [{ toolName: 'bash', pattern: 'npm publish', id: 'publish' }],
  },
});
if (!loaded.ok) throw new Error(JSON.stringify(loaded.error));
const set = loaded.value;
const partsOf = (command: string) => commandParts(set, { tool: 'bash', args: { command } }, defaultFacts());
const words = (command: string) =>
  partsOf(command)?.tokens.map(({ start, end, kind }) => `${kind}:${command.slice(start, end)}`);
const decisive = (command: string) =>
  partsOf(command)?.decisive.map(({ start, end, effect, rules }) => [command.slice(start, end), effect, ...rules]);

describe('the words of a command', () => {
  test.each([
    ['ls -la "a b"', ['program:ls', 'option:-la', 'string:"a b"']],
    ['CI=1 npm ci > out.txt', ['assignment:CI=1', 'program:npm', 'word:ci', 'redirect:> out.txt']],
    ['a && b | c', ['program:a', 'operator:&&', 'program:b', 'operator:|', 'program:c']],
    ['echo x # then', ['program:echo', 'word:x', 'comment:# then']],
    ['echo $(rm x)', ['program:echo', 'expansion:$(', 'program:rm', 'word:x', 'expansion:)']],
    [
      'for i in a; do b; done',
      [
        'operator:for',
        'operator:i',
        'operator:in',
        'operator:a;',
        'operator:do',
        'program:b',
        'operator:;',
        'operator:done',
      ],
    ],
  ])('%j', (command, expected) => {
    expect(words(command)).toEqual(expected);
  });

  test('stand in order, do not overlap and never lie outside the text', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 60 }), (command) => {
        let last = 0;
        for (const { start, end } of partsOf(command)?.tokens ?? []) {
          expect([start >= last, end > start, end <= command.length]).toEqual([true, true, true]);
          last = end;
        }
      }),
    );
  });
});

describe('the parts that decided', () => {
  test.each([
    ['ls; git push origin main && echo done', [['git push origin main', 'deny', 'no-push']]],
    ['cd x && npm publish --tag next', [['npm publish --tag next', 'ask', 'publish']]],
    ["echo a; sh -c 'git push origin'", [["sh -c 'git push origin'", 'deny', 'no-push']]],
    ['echo $(npm publish)', [['npm publish', 'ask', 'publish']]],
    ['ls -la', []],
  ])('%j', (command, expected) => {
    expect(decisive(command)).toEqual(expected);
  });

  test('are of the same effect as the decision whenever there are any', () => {
    const piece = fc.constantFrom('ls', 'git push o', 'npm publish', "sh -c 'npm publish'", 'cat a > b', 'sudo x', '"');
    fc.assert(
      fc.property(fc.array(piece, { minLength: 1, maxLength: 4 }), fc.constantFrom('; ', ' && ', ' | '), (list, by) => {
        const command = list.join(by);
        const effects = new Set(partsOf(command)?.decisive.map(({ effect }) => effect));
        const { effect } = decide(set, { tool: 'bash', args: { command } }, defaultFacts());
        expect([...effects].every((found) => found === effect)).toBe(true);
      }),
    );
  });
});

test('a text over the limit, and a call of another tool, have no parts', () => {
  expect(partsOf(`echo ${'x'.repeat(70_000)}`)).toEqual({
    tokens: [],
    decisive: [],
    problems: ['the command is over 64 KiB'],
  });
  expect(commandParts(set, { tool: 'read', args: { path: 'a' } }, defaultFacts())).toBeUndefined();
});
