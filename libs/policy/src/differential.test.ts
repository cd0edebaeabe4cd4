import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decide, factsOf, type LayerSource, loadPolicySet } from './index.ts';
import {
  type ReferenceContext,
  type ReferenceRule,
  referenceEffect,
  render,
  type Tree,
} from './reference-evaluator.ts';

const words = fc.oneof(
  fc
    .tuple(
      fc.constantFrom('git', '/usr/bin/git', './git'),
      fc.subarray(['--no-pager', '-P']),
      fc.constantFrom('push', 'status', 'fetch'),
      fc.subarray(['origin', '--force']),
    )
    .map(([program, options, sub, rest]) => [program, ...options, sub, ...rest]),
  fc.constantFrom(
    ['npm', 'test'],
    ['npm', 'testbed'],
    ['npm', 'publish', '--tag', 'x'],
    ['npm', 'publish-docs'],
    ['rm', '-rf', 'build'],
    ['ls'],
    ['ls', '-la', 'src'],
  ),
);
const simple: fc.Arbitrary<Tree> = fc
  .tuple(
    words,
    fc.option(fc.constantFrom('out.txt', 'infra/main.tf', 'src/.env', 'infra'), { nil: undefined, freq: 3 }),
  )
  .map(([w, to]) => ({ kind: 'simple', words: w, ...(to === undefined ? {} : { to }) }));
const bareSimple: fc.Arbitrary<Tree> = words.map((w) => ({ kind: 'simple', words: w }));
const wrapped: fc.Arbitrary<Tree> = fc
  .tuple(
    fc.constantFrom(['nohup', true], ['timeout 5', true], ['nice -n 3', true], ['setsid', true], ['flock x', false]),
    bareSimple,
  )
  .map(([[by, transparent], body]) => ({ kind: 'wrapped', by: String(by), transparent: transparent === true, body }));
const { tree } = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    simple,
    wrapped,
    fc.record({
      kind: fc.constant('seq' as const),
      op: fc.constantFrom('&&' as const, '||' as const, ';' as const, '|' as const, '&' as const),
      parts: fc.array(tie('tree'), { minLength: 2, maxLength: 3 }),
    }),
    fc.record({
      kind: fc.constantFrom('subshell' as const, 'group' as const, 'if' as const, 'loop' as const, 'shell' as const),
      body: tie('tree'),
    }),
  ),
}));

const rule: fc.Arbitrary<ReferenceRule> = fc.record({
  effect: fc.constantFrom('allow' as const, 'ask' as const, 'deny' as const),
  tool: fc.constant('bash'),
  pattern: fc.constantFrom(
    'git *',
    'git push*',
    'git status',
    'git push --force*',
    'npm test *',
    'npm publish',
    'rm -rf *',
    'rm *',
    'ls',
    'ls *',
    '*',
    './git *',
    'flock *',
  ),
});
const pathRule: fc.Arbitrary<ReferenceRule> = fc.record({
  effect: fc.constantFrom('allow' as const, 'ask' as const, 'deny' as const),
  tool: fc.constant('write'),
  pattern: fc.constantFrom('infra/**', '*.env', '*.txt', 'src/**'),
});
const context: fc.Arbitrary<ReferenceContext> = fc.record({
  mode: fc.constantFrom('strict' as const, 'dev' as const, 'yolo' as const),
  sandboxed: fc.boolean(),
  fullAccess: fc.boolean(),
  rules: fc.array(fc.oneof({ weight: 3, arbitrary: rule }, pathRule), { maxLength: 5 }),
});

function engine(command: string, c: ReferenceContext) {
  const of = (effect: string) =>
    c.rules.filter((r) => r.effect === effect).map(({ tool, pattern }) => ({ toolName: tool, pattern }));
  const user: LayerSource = { mode: c.mode, allowRules: of('allow'), askRules: of('ask'), denyRules: of('deny') };
  const set = loadPolicySet({ user });
  if (!set.ok) throw new Error(JSON.stringify(set.error));
  const facts = factsOf({ sandboxed: c.sandboxed, approvalMode: c.fullAccess ? 'full_access' : 'manual' });
  return decide(set.value, { tool: 'bash', args: { command } }, facts);
}
const RANK = { allow: 0, ask: 1, deny: 2, error: 3 } as const;

describe('the engine beside a naive model', () => {
  it('never answers less strictly than the model', () => {
    fc.assert(
      fc.property(tree, context, (t, c) => {
        const decision = engine(render(t), c);
        const wanted = referenceEffect(t, c);
        expect(
          RANK[decision.effect],
          `${render(t)} : ${decision.reasons.join('; ')}, wanted ${wanted}`,
        ).toBeGreaterThanOrEqual(RANK[wanted]);
      }),
      { numRuns: 3000 },
    );
  });
  it('answers as the model does wherever nothing in the call is open to doubt', () => {
    fc.assert(
      fc.property(tree, context, (t, c) => {
        const decision = engine(render(t), c);
        fc.pre(!decision.askKinds.includes('possible') && !decision.askKinds.includes('unreadable'));
        expect(decision.effect, `${render(t)} : ${decision.reasons.join('; ')}`).toBe(referenceEffect(t, c));
      }),
      { numRuns: 3000 },
    );
  });
});
