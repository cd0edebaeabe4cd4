import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decide, defaultFacts, type LayerSource, loadPolicySet, type RuleSource } from './index.ts';

const words = [
  'git',
  'push',
  'rm',
  '-rf',
  'build',
  'sh',
  '-c',
  '"$X"',
  "'rm x'",
  '&&',
  '|',
  ';',
  '(',
  ')',
  '> .env',
  '$(id)',
  'sudo',
  'env',
  'A=b',
  'cd ..',
  'xargs',
  'find',
  '/',
  '~',
  'if',
  'then',
  'fi',
  '<<EOF\nx\nEOF\n',
  '`ls`',
  'npm',
  'test',
];
const command = fc.array(fc.constantFrom(...words), { maxLength: 12 }).map((w) => w.join(' '));
const rule: fc.Arbitrary<RuleSource> = fc.oneof(
  fc.record({
    toolName: fc.constant('bash'),
    pattern: fc.constantFrom('git *', 'git push*', 'rm *', 'rm -rf *', '*', 'npm test', 'sh *', 'cd *'),
  }),
  fc.record({
    toolName: fc.constantFrom('read', 'write'),
    pattern: fc.constantFrom('*.env', 'build/**', '~/**', 'src/*'),
  }),
);
const rules = fc.array(rule, { maxLength: 4 });
const mode = fc.constantFrom('strict' as const, 'dev' as const, 'networked' as const, 'yolo' as const);
const layer: fc.Arbitrary<LayerSource> = fc.record({ mode, allowRules: rules, askRules: rules, denyRules: rules });
const RANK = { allow: 0, ask: 1, deny: 2, error: 3 };

function answer(user: LayerSource, text: string) {
  const set = loadPolicySet({ user });
  if (!set.ok) throw new Error(JSON.stringify(set.error));
  return decide(set.value, { tool: 'bash', args: { command: text } }, defaultFacts());
}
const flip = <T>(list: readonly T[] | undefined): T[] => [...(list ?? [])].reverse();

describe('decide', () => {
  it('gives the same answer byte for byte, whatever the order of the rules', () => {
    fc.assert(
      fc.property(layer, command, (user, text) => {
        const flipped = {
          ...user,
          allowRules: flip(user.allowRules),
          askRules: flip(user.askRules),
          denyRules: flip(user.denyRules),
        };
        expect(JSON.stringify(answer(flipped, text))).toBe(JSON.stringify(answer(user, text)));
      }),
      { numRuns: 300 },
    );
  });
  it('is never loosened by adding a deny or an ask, or by removing the allows', () => {
    fc.assert(
      fc.property(layer, rule, command, (user, extra, text) => {
        const before = RANK[answer(user, text).effect];
        expect(
          RANK[answer({ ...user, denyRules: [...(user.denyRules ?? []), extra] }, text).effect],
        ).toBeGreaterThanOrEqual(before);
        expect(
          RANK[answer({ ...user, askRules: [...(user.askRules ?? []), extra] }, text).effect],
        ).toBeGreaterThanOrEqual(before);
        expect(RANK[answer({ ...user, allowRules: [] }, text).effect]).toBeGreaterThanOrEqual(before);
      }),
      { numRuns: 300 },
    );
  });
  it('never throws, whatever the input', () => {
    fc.assert(
      fc.property(fc.anything(), fc.string({ unit: 'binary' }), (junk, text) => {
        const set = loadPolicySet({ user: { mode: 'yolo' } });
        if (!set.ok) return;
        decide(set.value, junk as never, defaultFacts());
        decide(set.value, { tool: text, args: { command: text } }, defaultFacts());
        expect(
          decide(set.value, { tool: 'bash', args: { command: `${text.replaceAll('"', '')}"` } }, defaultFacts()).effect,
        ).toBeDefined();
        loadPolicySet(junk as never);
      }),
      { numRuns: 300 },
    );
  });
  it('spends at most two seconds of processor time on a hostile 64 KiB command', () => {
    for (const text of [
      'a'.repeat(65000),
      '-a '.repeat(20000),
      'x(){'.repeat(16000),
      `sed '${'s/a/b/g;'.repeat(8000)}'`,
      '$(('.repeat(5000),
    ]) {
      const user: LayerSource = {
        mode: 'dev',
        denyRules: [
          { toolName: 'bash', pattern: '*a*b*c*' },
          { toolName: 'write', pattern: '**/a/**/b' },
        ],
      };
      // Time of this thread alone: other processes may hold the machine for longer.
      const before = process.threadCpuUsage();
      answer(user, text);
      expect(process.threadCpuUsage(before).user).toBeLessThan(2_000_000);
    }
  });
});
