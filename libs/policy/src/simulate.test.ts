import { expect, it } from 'vitest';
import { type LayerSource, loadPolicySet, type RecordedCall, simulate } from './index.ts';

const setOf = (user: LayerSource) => {
  const set = loadPolicySet({ user });
  if (!set.ok) throw new Error(JSON.stringify(set.error));
  return set.value;
};
const bash = (id: string, command: string, more: Partial<RecordedCall> = {}): RecordedCall => ({
  id,
  agent: 'agent-a',
  call: { tool: 'bash', args: { command } },
  ...more,
});
const old = setOf({
  mode: 'strict',
  denyRules: [{ toolName: 'bash', pattern: 'npm publish', id: 'no-publish' }],
  allowRules: [{ toolName: 'bash', pattern: 'ls*' }],
});
const next = setOf({
  mode: 'strict',
  denyRules: [{ toolName: 'bash', pattern: 'ls*', id: 'no-ls' }],
  allowRules: [{ toolName: 'bash', pattern: 'npm *' }],
});
const recorded = [
  bash('1', 'ls'),
  bash('2', 'npm publish', { human: 'denied', agent: 'agent-b' }),
  bash('3', 'npm test'),
  bash('4', 'git status'),
];

it('what would change is reported with newly allowed calls first, by rule, tool and agent', () => {
  const report = simulate(next, recorded, old);
  expect(report.total).toBe(4);
  expect(report.unchanged).toBe(1);
  expect(report.changes.map(({ from, to, count }) => ({ from, to, count }))).toEqual([
    { from: 'deny', to: 'allow', count: 1 },
    { from: 'ask', to: 'allow', count: 1 },
    { from: 'allow', to: 'deny', count: 1 },
  ]);
  expect(report.changes[0]?.byRule.map((g) => g.name)).toEqual(['no longer: no-publish']);
  expect(report.changes[2]?.byRule.map((g) => g.name)).toEqual(['no-ls']);
  expect(report.changes[0]?.byAgent.map((g) => [g.name, g.count])).toEqual([['agent-b', 1]]);
  expect(report.changes[1]?.byTool[0]?.examples.map((e) => e.subject)).toEqual(['npm test']);
});

it('a call that a person denied and the new set would allow is flagged, whatever was recorded', () => {
  const report = simulate(next, [bash('9', 'npm publish', { human: 'denied', effect: 'allow' })], old);
  expect(report.changes).toEqual([]);
  expect(report.deniedByHumanNowAllowed).toMatchObject({ count: 1, examples: [{ id: '9', subject: 'npm publish' }] });
});

it('a recorded answer is compared with, not decided anew', () => {
  expect(simulate(next, [bash('1', 'npm test', { effect: 'deny' })], old).changes[0]).toMatchObject({
    from: 'deny',
    to: 'allow',
  });
});
