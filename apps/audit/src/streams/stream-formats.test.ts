import type { AuditEntry } from '@countersign/merkle';
import { expect, test } from 'vitest';
import { lineOf } from './file-sink.ts';
import { ocsfOf } from './ocsf.ts';
import { framed, syslogOf } from './syslog.ts';

const base: AuditEntry = {
  version: 1,
  index: 7,
  id: 'ent_7',
  tenant: 'org',
  stream: 'call_a',
  stream_seq: 0,
  prev: null,
  type: 'decision',
  emitted_ms: 1_700_000_000_000,
  recorded_ms: 1_700_000_000_001,
  call: 'call_a',
  tool: { name: 'bash', action: 'execute' },
};
const item = (changes: Partial<AuditEntry>) => {
  const whole = { ...base, ...changes };
  return { entry: whole, text: JSON.stringify(whole), leafHash: 'ab'.repeat(32) };
};

test.each([
  ['allowed by rule', { effect: 'allow', decided_by: 'rule' }, { disposition_id: 1, action_id: 1 }],
  ['approved by a person', { effect: 'allow', decided_by: 'human' }, { disposition_id: 8, action_id: 1 }],
  ['blocked by rule', { effect: 'deny', decided_by: 'rule' }, { disposition_id: 2, action_id: 2 }],
  ['rejected by a person', { effect: 'deny', decided_by: 'human' }, { disposition_id: 25, action_id: 2 }],
])('OCSF: %s', (_name, decision, expected) => {
  expect(ocsfOf(item({ decision }))).toMatchObject({
    class_uid: 1007,
    category_uid: 1,
    type_uid: 100_799,
    ...expected,
    record_integrity: { index: 7, leaf_hash: 'ab'.repeat(32) },
  });
});

test.each([
  ['write', 'decision', 1001, 3],
  ['read', 'decision', 1001, 2],
  ['bash', 'exec.started', 1007, 1],
  [undefined, 'audit.read', 6003, 2],
] as const)('OCSF class of %s at %s', (tool, type, classUid, activity) => {
  const { tool: _tool, ...rest } = base;
  const event = ocsfOf(item(tool ? { type, tool: { name: tool } } : ({ ...rest, tool: undefined, type } as never)));
  expect(event).toMatchObject({ class_uid: classUid, activity_id: activity, type_uid: classUid * 100 + activity });
});

test('hostile text breaks out of no line, header or structured data', () => {
  const hostile = item({
    host: 'a b\n<13>1 forged',
    call: 'x"]\n[y',
    tenant: 'org]\u2028',
    detail: { text: '\n\0\u2028"' },
  });
  const message = syslogOf(hostile, '32473');
  expect(message).toMatch(
    /^<110>1 2023-11-14T22:13:20\.001Z a_b_<13>1_forged countersign - decision \[entry@32473 index="7"/,
  );
  expect(message).toContain('call="x\\"\\] [y"');
  expect(message.split('\n').length).toBe(1);
  const length = Buffer.byteLength(message);
  expect(framed(message).toString()).toBe(`${length} ${message}`);
  for (const format of ['json', 'ocsf'] as const) expect(lineOf(hostile, format).split('\n').length).toBe(2);
});
