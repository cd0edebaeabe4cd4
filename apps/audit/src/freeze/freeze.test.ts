import { randomUUID } from 'node:crypto';
import { createIdentity, openIdentity, verifyReceipt } from '@countersign/protocol';
import { describe, expect, test } from 'vitest';
import { decision, dispatch, entry, json, note, received, session } from '../../test/drafts.ts';
import { useSequencer } from '../../test/use-sequencer.ts';

const bench = useSequencer();
const { append } = bench;
const freeze = (scope: string, stopRunning = false) =>
  bench.sequencer.changeFreeze({ kind: 'set', scope, reason: 'incident 7', subject: 'ann', stopRunning });
const clear = (scope: string) => bench.sequencer.changeFreeze({ kind: 'clear', scope, reason: 'over', subject: 'bob' });
const codes = (replies: readonly { refusal: { code: string } | undefined }[]) =>
  replies.map((reply) => reply.refusal?.code.replace('countersign.audit.', '') ?? 'recorded');
const pending = (callId: string, facts: object = {}) => ({
  ...received(callId, facts),
  entries: [entry(callId, 'call.received', 'received'), entry(callId, 'approval.requested', 'pending')],
});
const handOver = (callId: string) => ({
  entries: [entry(callId, 'handed_over', 'handed_over')],
  orderId: `ord_${callId}`,
});
const types = async () =>
  (await bench.owner.query<{ type: string }>('select type from audit.entry order by log_index')).rows.map(
    (row) => row.type,
  );

describe('a frozen scope', () => {
  test.each([
    ['all', 'everything'],
    ['host:local', 'its host'],
    ['agent:sample', 'its agent'],
    ['session:ses_1', 'its session'],
    ['session:ses_root', 'an ancestor of its session'],
  ])('`%s` holds a call through %s: neither approved, dispatched, handed over nor begun', async (scope) => {
    const facts = { ancestorSessionIds: ['ses_parent', 'ses_root'] };
    await append(pending('call_waits', facts));
    await append(received('call_approved', facts));
    await append(decision('call_approved', 'allow'));
    await append(received('call_own', { ...facts, executor: 'agent' }));
    await append(decision('call_own', 'allow'));
    await freeze(scope);
    const before = await bench.count('select count(*) n from audit.entry');
    const replies = [
      await append(decision('call_waits', 'allow')),
      await append(dispatch('call_approved', { freezeEpoch: 1n })),
      await append({ ...handOver('call_own'), freezeEpoch: 1n }),
      await append(received('call_new', facts)),
    ];
    expect(codes(replies)).toEqual(['frozen', 'frozen', 'frozen', 'frozen']);
    expect(replies[0]?.refusal).toMatchObject({ state: 'pending', message: `\`${scope}\` is frozen: incident 7` });
    expect(await bench.count('select count(*) n from audit.entry')).toBe(before);
  });

  test.each(['host:other', 'agent:other', 'session:ses_2'])('`%s` leaves other calls alone', async (scope) => {
    await append(received('call_a'));
    await freeze(scope);
    const replies = [await append(decision('call_a', 'allow')), await append(dispatch('call_a', { freezeEpoch: 1n }))];
    expect(codes(replies)).toEqual(['recorded', 'recorded']);
  });

  test("an order for a frozen host is held even when the call's own host is another", async () => {
    await append(received('call_a'));
    await append(decision('call_a', 'allow'));
    await freeze('host:second');
    expect(codes([await append(dispatch('call_a', { orderHost: 'second', freezeEpoch: 1n }))])).toEqual(['frozen']);
  });

  test('a waiting call can still be denied, and a new one recorded together with its rejection', async () => {
    await append(pending('call_a'));
    await freeze('all');
    const denied = await append({
      ...decision('call_a', 'deny', 'human'),
      entries: [...(decision('call_a', 'deny').entries ?? []), entry('call_a', 'call.closed')],
    });
    const rejected = await append({
      ...received('call_b'),
      entries: [
        entry('call_b', 'call.received', 'received'),
        entry('call_b', 'call.rejected', 'rejected'),
        entry('call_b', 'call.closed'),
      ],
    });
    expect(codes([denied, rejected])).toEqual(['recorded', 'recorded']);
  });

  test('a freeze counts for everything after it, also in the same commit', async () => {
    await append(received('call_a'));
    await append(decision('call_a', 'allow'));
    await append(received('call_b'));
    await append(decision('call_b', 'allow'));
    const before = bench.sequencer.commits;
    const replies = await Promise.all([
      append(dispatch('call_a')),
      freeze('all'),
      append(dispatch('call_b', { freezeEpoch: 1n })),
      clear('all'),
      append(dispatch('call_b', { freezeEpoch: 2n })),
    ]);
    expect(codes(replies)).toEqual(['recorded', 'recorded', 'frozen', 'recorded', 'recorded']);
    expect(bench.sequencer.commits - before).toBe(1);
    expect((await types()).slice(-4)).toEqual(['dispatch.sent', 'freeze.set', 'freeze.cleared', 'dispatch.sent']);
  });

  test('a decision made before the newest freeze epoch is decided again, whatever its scope', async () => {
    await append(received('call_a'));
    await append(decision('call_a', 'allow'));
    await freeze('host:other');
    expect(codes([await append(dispatch('call_a'))])).toEqual(['stale_freeze']);
    expect(codes([await append(dispatch('call_a', { freezeEpoch: 2n }))])).toEqual(['stale_freeze']);
  });

  test('the same freeze twice is one entry; another reason is a new epoch', async () => {
    await freeze('all');
    expect((await freeze('all')).replayed).toBe(true);
    await freeze('all', true);
    expect(bench.sequencer.freezes).toMatchObject({ epoch: 2n });
    expect([...bench.sequencer.freezes.freezes.values()]).toMatchObject([
      { scope: 'all', stopRunning: true, epoch: 2n },
    ]);
    expect(await types()).toEqual(['freeze.set', 'freeze.set']);
  });

  test.each(['', 'al', 'host:', 'host:a.b', 'host:a\nb', 'queue:a', 'session:>', `agent:${'a'.repeat(65)}`])(
    '`%s` is no scope',
    async (scope) => {
      expect(codes([await freeze(scope)])).toEqual(['invalid']);
    },
  );

  test('what is not frozen cannot be cleared, and an epoch that never was cannot be confirmed', async () => {
    const confirm = (epoch: bigint) =>
      bench.sequencer.changeFreeze({ kind: 'confirm', host: 'local', epoch, running: 0 });
    expect(codes([await clear('all'), await confirm(1n)])).toEqual(['not_found', 'conflict']);
    await freeze('all');
    expect(codes([await confirm(1n), await confirm(1n)])).toEqual(['recorded', 'recorded']);
    expect(await types()).toEqual(['freeze.set', 'freeze.confirmed']);
  });

  test('a sender cannot append the entries of a freeze', async () => {
    expect(codes([await append({ entries: [note('freeze', 'freeze.cleared', 'ent_freeze_1')] })])).toEqual(['invalid']);
  });

  test('everything survives a new start: scopes, epoch, confirmations and history', async () => {
    await freeze('host:a', true);
    await freeze('host:b');
    await clear('host:b');
    await bench.sequencer.changeFreeze({ kind: 'confirm', host: 'a', epoch: 2n, running: 1 });
    const before = bench.sequencer.freezes;
    await bench.reopen();
    expect(bench.sequencer.freezes).toEqual(before);
    const { rows } = await bench.owner.query(
      'select scope, epoch, cleared_epoch, cleared_by from audit.freeze order by epoch',
    );
    expect(rows).toEqual([
      { scope: 'host:a', epoch: '1', cleared_epoch: null, cleared_by: null },
      { scope: 'host:b', epoch: '2', cleared_epoch: '3', cleared_by: 'bob' },
    ]);
  });
});

describe('revoked orders', () => {
  const stop = (callId: string) => ({ entries: [entry(callId, 'call.cancel_requested')] });

  test('are listed from the cancel until the order ends or expires, also after a new start', async () => {
    for (const callId of ['call_a', 'call_b', 'call_c']) {
      await append(received(callId));
      await append(decision(callId, 'allow'));
      await append(dispatch(callId));
    }
    expect(bench.sequencer.revokedOrders()).toEqual([]);
    await append(stop('call_a'));
    await append(stop('call_b'));
    expect(bench.sequencer.revokedOrders().toSorted()).toEqual(['ord_call_a', 'ord_call_b']);
    await bench.reopen();
    expect(bench.sequencer.revokedOrders().toSorted()).toEqual(['ord_call_a', 'ord_call_b']);
    const ended = [entry('call_b', 'exec.refused', 'withdrawn'), entry('call_b', 'call.closed')];
    await append({ entries: ended });
    expect(bench.sequencer.revokedOrders()).toEqual(['ord_call_a']);
    bench.nowMs = 9_000;
    expect(bench.sequencer.revokedOrders()).toEqual([]);
  });
});

describe('sessions', () => {
  const open = (key: string, parent = '') =>
    append(session(0n, json(parent === '' ? {} : { parent }), randomUUID(), key));
  const child = { sessionId: 'ses_child', sessionVersion: 1n };
  const chain = (...versions: [string, bigint][]) => ({
    ...child,
    expected: versions.map(([key, version]) => ({ kind: 'session', key, version })),
  });

  test('a decision names every ancestor at its present version', async () => {
    await open('ses_root');
    await open('ses_parent', 'ses_root');
    await open('ses_child', 'ses_parent');
    const full = chain(['ses_parent', 1n], ['ses_root', 1n]);
    const facts = { sessionId: 'ses_child' };
    expect(
      codes([
        await append({ ...received('call_1', facts), ...full }),
        await append({ ...received('call_2', facts), ...child }),
        await append({ ...received('call_3', facts), ...chain(['ses_parent', 1n]) }),
        await append({ ...received('call_4', facts), ...chain(['ses_root', 1n], ['ses_other', 0n]) }),
        await append({ ...received('call_5', facts), ...chain(['ses_parent', 1n], ['ses_root', 2n]) }),
      ]),
    ).toEqual(['recorded', 'invalid', 'invalid', 'invalid', 'stale_session']);
    await append(session(1n, json({ permission_mode: 'strict' }), randomUUID(), 'ses_root'));
    expect(codes([await append({ ...received('call_6', facts), ...full })])).toEqual(['stale_session']);
  });

  test('a change of an ancestor in the same commit makes the decision stale', async () => {
    await open('ses_root');
    await open('ses_child', 'ses_root');
    const replies = await Promise.all([
      append(session(1n, json({}), randomUUID(), 'ses_root')),
      append({ ...received('call_1', { sessionId: 'ses_child' }), ...chain(['ses_root', 1n]) }),
    ]);
    expect(codes(replies)).toEqual(['recorded', 'stale_session']);
  });
});

test('a receipt of another service does not verify', async () => {
  await append(received('call_a'));
  await append(decision('call_a', 'allow'));
  const { receipt } = await append(dispatch('call_a'));
  const stranger = await openIdentity(await createIdentity('audit', 'audit'));
  expect(receipt && verifyReceipt(receipt, stranger.publicKey)).toBe(false);
});

describe('who carries a call out', () => {
  test.each([
    ["a dispatch of an agent's own call", 'agent', dispatch('call_a')],
    ["a hand-over of a runner's call", '', handOver('call_a')],
    ['a hand-over that names a host', 'agent', { ...handOver('call_a'), orderHost: 'local' }],
    ['a hand-over without an order', 'agent', { ...handOver('call_a'), orderId: '' }],
  ])('%s is refused', async (_title, executor, request) => {
    await append(received('call_a', { executor }));
    await append(decision('call_a', 'allow'));
    expect(codes([await append(request)])).toEqual(['invalid']);
  });

  test('a hand-over gives a receipt that names no host, again when it is replayed', async () => {
    await append(received('call_a', { executor: 'agent' }));
    await append(decision('call_a', 'allow'));
    const replies = [await append(handOver('call_a')), await append(handOver('call_a'))];
    expect(replies.map(({ receipt, replayed }) => [receipt?.callId, receipt?.host, replayed])).toEqual([
      ['call_a', '', false],
      ['call_a', '', true],
    ]);
  });
});
