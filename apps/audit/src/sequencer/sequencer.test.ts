import { randomBytes, randomUUID } from 'node:crypto';
import { emptyTree } from '@countersign/merkle';
import { AppendRequest, CallRecord, createIdentity, openIdentity } from '@countersign/protocol';
import { Kysely, PostgresDialect } from 'kysely';
import { Migrator } from 'kysely/migration';
import pg from 'pg';
import { describe, expect, test, vi } from 'vitest';
import { session as changed, dispatch, entry, json, received, text } from '../../test/drafts.ts';
import { useSequencer } from '../../test/use-sequencer.ts';
import { migrate } from '../db/connection.ts';
import { MIGRATIONS, PARTITION_ENTRIES } from '../db/migrations.ts';
import { emptyFreezeState } from '../freeze/freeze-state.ts';
import { BatchBuilder } from './batch-builder.ts';
import { sha256 } from './sha256.ts';

const bench = useSequencer();
const { append, count } = bench;
const session = (version: bigint, value: Uint8Array) => changed(version, value, randomUUID());
const decision = (callId: string, effect: string, toState: string) => ({
  entries: [entry(callId, 'decision', toState, { decision: { effect } })],
  decidedBy: 'rule',
  decidedByName: 'r1',
});

describe('group commit', () => {
  test('what waits is one commit and one transaction, whatever its number of requests', async () => {
    const replies = await Promise.all(Array.from({ length: 100 }, (_, at) => append(received(`call_${at}`))));
    expect(replies.every((reply) => reply.refusal === undefined)).toBe(true);
    expect(bench.sequencer.commits).toBe(1);
    expect(await count('select count(distinct xmin::text) n from audit.entry')).toBe(1);
  });

  test('a batch costs one flush of the write-ahead log, one round trip of the writer and one of its reader, however many receipts it gives', async () => {
    await append(received('call_warm'));
    const flushes = async () => {
      await bench.writer.query('select pg_stat_force_next_flush()');
      await bench.writer.query('select 1');
      const seen = await bench.writer.query<{ n: string }>(
        "select sum(fsyncs) n from pg_stat_get_backend_io(pg_backend_pid()) where object = 'wal'",
      );
      return Number(seen.rows[0]?.n);
    };
    const before = await flushes();
    const queries = [vi.spyOn(bench.writer, 'query'), vi.spyOn(bench.loader, 'query')];
    await Promise.all(Array.from({ length: 64 }, (_, at) => append(received(`call_${at}`))));
    const roundTrips = queries.map((spy) => spy.mock.calls.length);
    for (const spy of queries) spy.mockRestore();
    expect({ roundTrips, flushes: (await flushes()) - before }).toEqual({ roundTrips: [1, 1], flushes: 1 });
  });

  test('more than 500 entries are split at 500', async () => {
    await Promise.all(Array.from({ length: 501 }, (_, at) => append(received(`call_${at}`))));
    expect(bench.sequencer.commits).toBe(2);
    expect(await count('select count(*) n from audit.entry')).toBe(501);
  });

  test('a refused request costs no commit', async () => {
    expect((await append(decision('call_zz', 'allow', 'approved'))).refusal?.code).toBe('countersign.audit.not_found');
    expect(bench.sequencer.commits).toBe(0);
  });

  test('the log goes on past the end of a partition', async () => {
    const size = PARTITION_ENTRIES - 1;
    const stack = Array.from({ length: size.toString(2).replaceAll('0', '').length }, () => randomBytes(32));
    await bench.owner.query('update audit.head set next_index = $1, stack = $2', [size, stack]);
    await bench.reopen({ size, stack });
    for (const callId of ['call_a', 'call_b']) expect((await append(received(callId))).refusal).toBeUndefined();
    expect(await count('select max(log_index) n from audit.entry')).toBe(PARTITION_ENTRIES);
    await expect(bench.owner.query(`delete from audit.entry_f${PARTITION_ENTRIES}`)).rejects.toThrow(/append-only/);
  });
});

describe('memory', () => {
  const life = (callId: string) => [received(callId), decision(callId, 'allow', 'approved'), dispatch(callId)];

  test.each([0, 1, 20_000])(
    'with %i items kept, calls that arrive all at once and replays are judged alike',
    async (items) => {
      await bench.reopen(undefined, items);
      const calls = Array.from({ length: 40 }, (_, at) => `call_${at}`);
      const first = await Promise.all(calls.flatMap(life).map(append));
      expect(first.filter((reply) => reply.refusal).length).toBe(0);
      const again = await Promise.all(calls.flatMap(life).map(append));
      expect(again.map(({ entries }) => entries)).toEqual(first.map(({ entries }) => entries));
      expect(again.every((reply) => reply.replayed)).toBe(true);
      const lost = await Promise.all(calls.map((callId) => append(decision(callId, 'deny', 'denied'))));
      expect(lost.map((reply) => reply.refusal?.code)).toEqual(calls.map(() => 'countersign.audit.conflict'));
      expect(await count('select count(*) n from audit.entry')).toBe(120);
      expect(await count('select count(*) n from audit.entry where stream_seq > 2')).toBe(0);
    },
  );
});

describe('a sender cannot stop the record', () => {
  const long = randomBytes(6_000).toString('base64url');
  test.each([
    ['a call id with a NUL', received('call_\0')],
    ['a call id of 8,000 characters', received(long)],
    ['a session id of 8,000 characters', received('call_a', { sessionId: long })],
    ['a stream with a NUL', { entries: [{ ...entry('', 'audit.read'), stream: 'a\0' }] }],
    ['an entry without an id', { entries: [{ ...entry('', 'audit.read'), stream: 'audit', id: '' }] }],
    ['a document that is not JSON', session(0n, text('{'))],
    ['a document that is no object', session(0n, text('[1]'))],
    ['a document with a NUL', session(0n, json({ a: '\0' }))],
    ['a document with a lone surrogate', session(0n, text('{"a":"\\ud800"}'))],
    ['a document nested without end', session(0n, text(`{"a":${'['.repeat(20_000)}${']'.repeat(20_000)}}`))],
    [
      'the same document twice',
      { ...session(0n, json({})), documents: [1, 2].flatMap(() => session(0n, json({})).documents ?? []) },
    ],
  ])('%s is refused as invalid and the next request is recorded', async (_name, request) => {
    const reply = await append(request);
    expect(reply.refusal?.code).toBe('countersign.audit.invalid');
    expect((await append(received('call_good'))).refusal).toBeUndefined();
    expect(bench.faults).toEqual([]);
  });

  test('a document changed twice in one commit has its second value and version', async () => {
    const replies = await Promise.all([
      append(session(0n, json({ step: 1 }))),
      append(session(1n, json({ step: 2 }))),
      append(session(1n, json({ step: 3 }))),
    ]);
    expect(replies.map((reply) => reply.refusal?.code)).toEqual([undefined, undefined, 'countersign.audit.conflict']);
    const { rows } = await bench.owner.query('select version, value from audit.document');
    expect(rows).toEqual([{ version: '2', value: { step: 2 } }]);
    expect(bench.sequencer.commits).toBe(1);
  });
});

describe('an entry says what its transition does', () => {
  test.each([
    [
      'a body that names another call',
      { entries: [{ ...entry('', 'audit.read', '', { call: 'call_b' }), stream: 'audit' }] },
    ],
    [
      'a body that forges its emitter',
      { entries: [entry('call_a', 'audit.read', '', { emitter: { role: 'audit' } })] },
    ],
    ['a body that is no object', { entries: [{ ...entry('call_a', 'audit.read'), body: json(7) }] }],
    ['a decision that denies and approves', decision('call_a', 'deny', 'approved')],
    ['a decision without a transition', decision('call_a', 'allow', '')],
    ['a decision by nobody', { ...decision('call_a', 'allow', 'approved'), decidedBy: '' }],
    ['an approval without a decision', { entries: [entry('call_a', 'approval.answered', 'approved')] }],
    ['a second beginning', { entries: [entry('call_a', 'call.received', '', {}, '2')] }],
    ['a call type without a call', { entries: [{ ...entry('', 'exec.started'), stream: 'audit' }] }],
    ['an end without its close', { entries: [entry('call_a', 'approval.expired', 'expired')] }],
    ['two calls in one request', { entries: [entry('call_a', 'audit.read'), entry('call_b', 'audit.read')] }],
    ['a result without a transition', { entries: [entry('call_a', 'audit.read')], sealedResult: text('result') }],
    ['a close of a call that has not ended', { entries: [entry('call_a', 'call.closed')] }],
  ])('%s is refused', async (_name, request) => {
    await append(received('call_a'));
    expect((await append(request)).refusal?.code).toBe('countersign.audit.invalid');
    expect(await count('select count(*) n from audit.entry')).toBe(1);
  });
});

describe('a call that has ended', () => {
  test('takes no further entry but a reading, and is closed once', async () => {
    await append(received('call_a'));
    const closed = (attempt: string) => entry('call_a', 'call.closed', '', {}, attempt);
    const end = [entry('call_a', 'approval.expired', 'expired'), closed('1')];
    expect((await append({ entries: end })).refusal).toBeUndefined();
    expect((await append({ entries: [closed('2')] })).refusal?.code).toBe('countersign.audit.invalid');
    const late = await append({ entries: [entry('call_a', 'approval.delivered')] });
    expect(late.refusal).toMatchObject({ code: 'countersign.audit.lost', state: 'expired' });
    expect((await append({ entries: [entry('call_a', 'audit.read')] })).refusal).toBeUndefined();
  });
});

describe('payloads', () => {
  const forged = {
    call: { ...received('call_a').call, sealedPayload: text('forged') },
    entries: [entry('call_a', 'audit.read')],
  };
  const decided = () => append(decision('call_a', 'allow', 'approved'));
  const dispatched = () =>
    append({ entries: [entry('call_a', 'dispatch.sent', 'dispatched')], orderId: 'ord_1', orderHost: 'local' });
  const ran = () => append({ entries: [entry('call_a', 'exec.started', 'running')], sealedResult: text('result') });
  type Row = { call_id: string; sealed_payload: Buffer; sealed_result: Buffer; key_id: string };
  const rows = async () => (await bench.owner.query<Row>('select * from audit.payload')).rows;
  const opened = async (row: Row, part: 'call' | 'result') => {
    const bytes = part === 'call' ? row.sealed_payload : row.sealed_result;
    return String(await bench.payloads.open(row.key_id, row.call_id, part, bytes));
  };
  const kept = async () =>
    Promise.all((await rows()).map(async (row) => [await opened(row, 'call'), await opened(row, 'result')]));
  const expected = [['sealed', 'result']];

  test('a later request replaces neither the sealed call nor the result', async () => {
    await append(received('call_a'));
    await decided();
    await dispatched();
    await ran();
    expect((await append(forged)).refusal).toBeUndefined();
    expect(await kept()).toEqual(expected);
  });

  test('are ciphertext in the database, and the entries commit to it', async () => {
    await Promise.all([append(received('call_a')), decided(), dispatched(), ran()]);
    const [row] = await rows();
    const leaves = await bench.owner.query<{ leaf: Buffer }>('select leaf from audit.entry order by log_index');
    const tools = leaves.rows.map(({ leaf }) => (JSON.parse(String(leaf)) as { tool?: object }).tool);
    const digest = (bytes: Uint8Array | undefined) => Buffer.from(sha256(bytes ?? new Uint8Array())).toString('hex');
    expect(tools).toEqual([
      { payload_digest: digest(row?.sealed_payload) },
      undefined,
      undefined,
      { result_digest: digest(row?.sealed_result) },
    ]);
    expect(row?.sealed_payload.includes('sealed')).toBe(false);
  });

  test('cannot be read any more once the key of the session is destroyed, and the log does not change', async () => {
    await Promise.all([append(received('call_a')), append(received('call_b', { sessionId: 'ses_2' }))]);
    const before = await rows();
    expect(await bench.payloads.destroy('ses_1')).toBe(true);
    const texts = await Promise.all(before.map((row) => opened(row, 'call')));
    expect(texts).toEqual(['undefined', 'sealed']);
    expect((await append(received('call_c'))).refusal).toBeUndefined();
    expect(await Promise.all((await rows()).map((row) => opened(row, 'call')))).toEqual([
      'undefined',
      'sealed',
      'sealed',
    ]);
  });

  test('within one commit neither', async () => {
    await Promise.all([append(received('call_a')), decided(), dispatched(), ran(), append(forged)]);
    expect(await kept()).toEqual(expected);
    expect(bench.sequencer.commits).toBe(1);
  });
});

/** A log with a call and a session, written into the tables of the first version. */
async function writeAsFirstVersion(url: string): Promise<void> {
  const cold = { calls: new Map(), entries: new Map(), streams: new Map(), documents: new Map() };
  const receiptIdentity = await openIdentity(await createIdentity('audit', 'audit'));
  const log = { head: emptyTree, recordedMs: 1_000, freezes: emptyFreezeState };
  await bench.payloads.ensure('ses_1');
  const { payloads } = bench;
  const building = new BatchBuilder({ epoch: 0n, tenant: 'test', receiptIdentity, payloads }, cold, log);
  building.add(AppendRequest.fromPartial(received('call_a')));
  building.add(AppendRequest.fromPartial(changed(0n, json({ step: 1 }), 'ent_1')));
  const { entries, calls, head } = building.batch();
  const old = new pg.Client({ connectionString: url });
  await old.connect();
  for (const row of entries) {
    const columns = [row.index, row.stream, row.seq, row.type, row.callId, row.recordedMs, row.leaf];
    await old.query('insert into audit.entry values ($1, $2, $3, $4, $5, $6, $7)', columns);
    const key = [row.id, row.index, row.leafHash, row.draftHash, row.recordedMs];
    await old.query('insert into audit.entry_key values ($1, $2, $3, $4, $5)', key);
  }
  for (const { record } of calls) {
    const row = [record.callId, record.agent, record.sessionId, record.state, CallRecord.encode(record).finish()];
    await old.query('insert into audit.call values ($1, $2, $3, $4, 1000, $5)', row);
  }
  await old.query("insert into audit.document values ('session', 'ses_1', 1, '{}')");
  await old.query('update audit.head set next_index = $1, stack = $2, recorded_ms = 1000', [head.size, head.stack]);
  await old.end();
}

describe('rights', () => {
  test('a log from before the record had an owner of its own goes on after the migration', async () => {
    await bench.owner.query(`create database old_${bench.databaseUrl.split('/').at(-1)}`);
    const url = bench.databaseUrl.replace(/\/(t_\w+)$/, '/old_$1');
    const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) }) });
    const migrator = new Migrator({ db, provider: { getMigrations: async () => ({ ...MIGRATIONS }) } });
    expect((await migrator.migrateTo('0001_log')).error).toBeUndefined();
    await writeAsFirstVersion(url);
    await migrate(url);
    await bench.moveTo(url);
    const replies = [await append(received('call_a')), await append(received('call_b'))];
    expect(replies.map(({ replayed, refusal }) => [replayed, refusal])).toEqual([
      [true, undefined],
      [false, undefined],
    ]);
    expect((await append(session(1n, json({ step: 2 })))).refusal).toBeUndefined();
    await db.destroy();
  });

  test('everything in the schema belongs to a role without login, and new partitions do', async () => {
    await bench.writer.query('select audit.extend($1, $2)', [2 * PARTITION_ENTRIES, PARTITION_ENTRIES]);
    const { rows } = await bench.owner.query(
      "select distinct pg_get_userbyid(relowner) as owner, rolcanlogin, rolsuper from pg_class join pg_roles r on r.oid = relowner where relnamespace = 'audit'::regnamespace and relkind in ('r', 'p')",
    );
    expect(rows).toEqual([{ owner: 'countersign_owner', rolcanlogin: false, rolsuper: false }]);
  });
});
