import { AppendRequest } from '@countersign/protocol';
import { expect, test } from 'vitest';
import { emptyFreezeState } from '../freeze/freeze-state.ts';
import { newGrant } from '../grants/grant-memory.ts';
import { type JudgeView, judge } from './judge.ts';

const view = (more: Partial<JudgeView> = {}): JudgeView => ({
  call: () => undefined,
  document: (kind, key) => {
    if (kind !== 'grant') return { version: 3n };
    const grant = newGrant(key, undefined, 1);
    if (key === 'grt_live') return { version: 1n, grant };
    return key === 'grt_ended' ? { version: 2n, grant: { ...grant, state: 'ended' } } : undefined;
  },
  freezes: emptyFreezeState,
  nowMs: 1,
  ...more,
});

const request = (facts: Parameters<typeof AppendRequest.fromPartial>[0]) =>
  AppendRequest.fromPartial({
    entries: [{ id: 'ent_1', type: 'admin.changed', stream: 'admin', body: new TextEncoder().encode('{}') }],
    ...facts,
  });

const codeOf = (facts: Parameters<typeof AppendRequest.fromPartial>[0], state = view()) => {
  const judged = judge(request(facts), state);
  return judged.ok ? 'recorded' : judged.refusal.code;
};

test.each([
  ['session', 3n, 'recorded'],
  ['session', 2n, 'countersign.audit.stale_session'],
  ['policy', 4n, 'countersign.audit.stale_policy'],
  ['trust', 0n, 'countersign.audit.stale_policy'],
  ['grants', 2n, 'countersign.audit.stale_grants'],
])('a decision made on %s version %i while it is 3: %s', (kind, version, code) => {
  expect(codeOf({ expected: [{ kind, key: 'k', version }] })).toBe(code);
});

test('a grant that lives may be used', () => {
  expect(codeOf({ grants: ['grt_live'] })).toBe('recorded');
});

test('a grant that was never made cannot be used', () => {
  expect(codeOf({ grants: ['grt_live', 'grt_made_up'] })).toBe('countersign.audit.stale_grants');
});

test('a revoked grant cannot be used', () => {
  expect(codeOf({ grants: ['grt_ended'] })).toBe('countersign.audit.stale_grants');
});
