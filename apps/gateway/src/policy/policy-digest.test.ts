import { expect, test } from 'vitest';
import { policyDigest } from './policy-digest.ts';

test('the order of keys does not change the digest, at any depth; the order of rules does', () => {
  const rules = [
    { toolName: 'bash', pattern: 'a' },
    { toolName: 'bash', pattern: 'b' },
  ];
  const one = policyDigest({ permissions: { mode: 'dev', denyRules: rules }, ceilings: {} });
  const reordered = rules.map(({ toolName, pattern }) => ({ pattern, toolName }));
  expect(policyDigest({ ceilings: {}, permissions: { denyRules: reordered, mode: 'dev' } })).toBe(one);
  expect(policyDigest({ ceilings: {}, permissions: { denyRules: rules.toReversed(), mode: 'dev' } })).not.toBe(one);
});
