import { describe, expect, test } from 'vitest';
import { type Draft, decision, entry, json, note, received } from '../../test/drafts.ts';
import { useSequencer } from '../../test/use-sequencer.ts';

const bench = useSequencer();
const { append } = bench;
const code = async (request: Draft) =>
  (await append(request)).refusal?.code.replace('countersign.audit.', '') ?? 'recorded';

const created = (id = 'grt_1') => note(id, 'grant.created', `ent_${id}_grant.created_1`);
const create = (bounds: object = {}, id = 'grt_1'): Draft => ({
  entries: [created(id)],
  grantBounds: { sessionId: 'ses_1', expiresAtMs: 5_000n, maxUses: 2, ...bounds },
});
const use = (callId: string, sessionId = 'ses_1'): Draft => ({
  ...received(callId, { sessionId }),
  entries: [
    entry(callId, 'call.received', 'received'),
    note('grt_1', 'grant.used', `ent_grt_1_used_${callId}`),
    entry(callId, 'decision', 'approved', { decision: { effect: 'allow' } }),
  ],
  decidedBy: 'grant',
  grants: ['grt_1'],
});
const end = (type: 'revoked' | 'expired', id = 'ent_grt_1_grant.ended_1'): Draft => ({
  entries: [note('grt_1', `grant.${type}`, id)],
});

describe('a grant', () => {
  test('decides as often as it allows and no more, also within one commit', async () => {
    await append(create());
    const replies = await Promise.all([use('call_1'), use('call_2'), use('call_3')].map(append));
    expect(replies.map((reply) => reply.refusal?.code ?? 'recorded')).toEqual([
      'recorded',
      'recorded',
      'countersign.audit.stale_grants',
    ]);
    const { rows } = await bench.owner.query("select value->>'uses' as uses, version from audit.document");
    expect(rows).toEqual([{ uses: '2', version: '3' }]);
    expect(await bench.count('select count(*) n from audit.call')).toBe(2);
  });

  test('cannot be used after its end, and the end survives a new start', async () => {
    await append(create());
    bench.nowMs = 5_000;
    expect(await code(use('call_1'))).toBe('stale_grants');
    expect(await code(end('expired'))).toBe('recorded');
    await bench.reopen();
    bench.nowMs = 1_000;
    expect(await code(use('call_1'))).toBe('stale_grants');
  });

  test('that is revoked cannot be used', async () => {
    await append(create({ maxUses: 0 }));
    expect(await code(use('call_1'))).toBe('recorded');
    expect(await code(end('revoked'))).toBe('recorded');
    expect(await code(use('call_2'))).toBe('stale_grants');
    expect(await code(end('expired'))).toBe('conflict');
    expect(await code(end('expired', 'ent_other'))).toBe('invalid');
  });

  test.each([
    ['of another session', use('call_1', 'ses_2'), 'stale_grants'],
    ['that nobody made', { ...use('call_1'), grants: ['grt_2'] }, 'stale_grants'],
    ['beside another that nobody made', { ...use('call_1'), grants: ['grt_1', 'grt_2'] }, 'stale_grants'],
    ['without its name', { entries: [note('grt_1', 'grant.used', 'ent_x')] }, 'invalid'],
    ['made again', { entries: [note('a', 'grant.created', 'ent_grt_1_grant.created_1')] }, 'conflict'],
    ['that has ended when it begins', create({ expiresAtMs: 1_000n }, 'grt_3'), 'invalid'],
    [
      'made and ended at once',
      { entries: [created('grt_3'), note('a', 'grant.revoked', 'ent_grt_3_grant.ended_1')] },
      'stale_grants',
    ],
    [
      'ended and used at once',
      { ...use('call_1'), entries: [...(use('call_1').entries ?? []), ...(end('revoked').entries ?? [])] },
      'invalid',
    ],
    ['that nobody made, ended', { entries: [note('a', 'grant.revoked', 'ent_grt_3_grant.ended_1')] }, 'stale_grants'],
    ['bounds without their grant', { ...create(), entries: [note('a', 'admin.changed', 'ent_4')] }, 'invalid'],
  ])('%s is refused', async (_name, request, expected) => {
    await append(create());
    const before = await bench.count('select count(*) n from audit.entry');
    expect(await code(request)).toBe(expected);
    expect(await bench.count('select count(*) n from audit.entry')).toBe(before);
  });

  test('a decision that says it is by a grant names one', async () => {
    await append(received('call_a'));
    expect(await code(decision('call_a', 'allow', 'grant'))).toBe('invalid');
  });

  test('without bounds lives until it is ended, in any session, without a write for each use', async () => {
    await append({ entries: [created()] });
    bench.nowMs = 10_000_000;
    expect(await code(use('call_1', 'ses_2'))).toBe('recorded');
    expect(await bench.count('select version n from audit.document')).toBe(1);
    expect(await code(end('revoked'))).toBe('recorded');
    expect(await code(use('call_2'))).toBe('stale_grants');
  });

  test('its document is written by the record alone', async () => {
    await append(create());
    const documents = [{ kind: 'grant', key: 'grt_1', value: json({ uses: 0 }), expectedVersion: 1n }];
    expect(await code({ entries: [note('a', 'admin.changed', 'ent_6')], documents })).toBe('invalid');
  });
});
