import { spawnSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decide, defaultFacts, type LayerSource, loadPolicySet } from './index.ts';

const pieces = [
  ...['ls', 'git push', 'echo a', 'cat', 'sh -c', 'eval', 'x=1', 'if', 'then', 'else', 'fi', 'for', 'in', 'do', 'done'],
  ...['while', 'case', 'esac', 'function', 'f()', '{', '}', '(', ')', '((', '))', '[[', ']]', '!', 'time', 'coproc'],
  ...[
    ';',
    ';;',
    '&',
    '&&',
    '|',
    '|&',
    '||',
    '\n',
    ' ',
    '\t',
    '#',
    '\\',
    '\\\n',
    "'",
    '"',
    '`',
    '$',
    '$(',
    '${',
    '${x:-',
    '$((',
  ],
  ...['$[', "$'", '$"', '<', '>', '>>', '<<', '<<-', '<<<', '<(', '>(', '2>&1', '>&', '&>', '<>', '<<EOF\n', '\nEOF\n'],
  ...[
    '<<"EOF"\n',
    'EOF',
    '*',
    '?',
    '[a]',
    '{a,b}',
    '{1..3}',
    '~',
    '@(a)',
    'a=(',
    ')',
    '+=',
    '=',
    '-rf',
    '/',
    '.env',
    '\u00e9',
    '\r',
  ],
];
const text = fc.oneof(
  { weight: 4, arbitrary: fc.array(fc.constantFrom(...pieces), { maxLength: 14 }).map((p) => p.join(' ')) },
  { weight: 2, arbitrary: fc.array(fc.constantFrom(...pieces), { maxLength: 14 }).map((p) => p.join('')) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 60 }) },
);

/** Constructs that must be closed, with what closes them. */
const brackets = fc
  .array(
    fc.constantFrom(
      ...[
        'ls',
        'echo a',
        ' ',

        ' & ',
        ' && ',
        ' | ',
        ' || ',
        '\n',
        "'",
        '"',
        '`',
        '$(',
        ')',
        '$((',
        '))',
        '${x:-',
        '}',
      ],
      ...['\\\n', ' <<EOF\n', '\nEOF\n', ' > out', ' <<< ', ' <(', '{ ', '\n}', '( ', ' )', 'if ls; then ', '\nfi'],
      ...['while ls; do ', '\ndone', 'for x in a; do ', 'case a in a) ', ';; esac', '[[ ', ' ]]'],
    ),
    { maxLength: 12 },
  )
  .map((p) => p.join(''));

function setOf(user: LayerSource) {
  const set = loadPolicySet({ user });
  if (!set.ok) throw new Error(JSON.stringify(set.error));
  return set.value;
}
const open = setOf({ mode: 'yolo' });
const narrow = setOf({
  mode: 'strict',
  allowRules: [
    { toolName: 'bash', pattern: 'ls *' },
    { toolName: 'bash', pattern: 'echo *' },
  ],
});
const exact = setOf({
  mode: 'strict',
  allowRules: [
    { toolName: 'bash', pattern: 'ls' },
    { toolName: 'bash', pattern: 'echo a' },
  ],
});
const ask = (set: typeof open, command: string) => decide(set, { tool: 'bash', args: { command } }, defaultFacts());

/** Whether bash itself takes the text as a whole script. */
const bashAccepts = (command: string): boolean =>
  spawnSync('bash', ['--norc', '--noprofile', '-n', '-O', 'extglob'], { input: command, env: {}, timeout: 5000 })
    .status === 0;

describe('the command analyser, fed with noise', () => {
  it('never throws and always answers', () => {
    fc.assert(
      fc.property(text, (command) => {
        for (const set of [open, narrow]) {
          const decision = ask(set, command);
          expect(['allow', 'ask', 'deny', 'error']).toContain(decision.effect);
          expect(decision.reasons.join(' ')).not.toContain('could not be judged');
        }
      }),
      { numRuns: 3000 },
    );
  }, 60_000);
  it('never allows, in any mode, a text in which bash finds something open or misplaced', () => {
    fc.assert(
      fc.property(brackets, (command) => {
        fc.pre(!command.includes('\0') && ask(open, command).effect === 'allow');
        expect(bashAccepts(command), JSON.stringify(command)).toBe(true);
      }),
      { numRuns: 250, maxSkipsPerRun: 1000, seed: 20261201 },
    );
  }, 60_000);
  it('never allows by a rule a text that could start a program which no rule covers', () => {
    fc.assert(
      fc.property(text, (command) => {
        fc.pre(!/[#<>]|sh -c/.test(command) && ask(exact, command).effect === 'allow');
        expect(command).not.toMatch(/git push|eval|cat|x=1/);
      }),
      { numRuns: 200, maxSkipsPerRun: 5000, seed: 20261201 },
    );
  }, 60_000);
});
