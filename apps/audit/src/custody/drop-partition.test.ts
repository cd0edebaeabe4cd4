import path from 'node:path';
import { leafHash, type Problem } from '@countersign/merkle';
import {
  type ApplyRetentionReply,
  type CheckDatabaseReport,
  CustodyClient,
  EvidenceClient,
  type HoldList,
} from '@countersign/protocol';
import { grpcClient } from '@countersign/service-kit';
import type { ServiceError } from '@grpc/grpc-js';
import pg from 'pg';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { entry, note, received, session, text } from '../../test/drafts.ts';
import { queryOnce } from '../../test/load.ts';
import { type AuditProcess, useAudit } from '../../test/use-audit.ts';
import { sha256 } from '../proofs/cosignatures.ts';

vi.setConfig({ testTimeout: 150_000 });
const suite = useAudit();
const SMALL = { partitionEntries: 256 };
const who = { reason: 'why', subject: 'root-admin' };

function asked<T>(
  audit: AuditProcess,
  start: (client: CustodyClient, done: (error: ServiceError | null, value: T) => void) => void,
): Promise<T> {
  const client = grpcClient(CustodyClient, `127.0.0.1:${audit.port}`);
  return new Promise<T>((resolve, reject) =>
    start(client, (error, value) => (error ? reject(error) : resolve(value))),
  ).finally(() => client.close());
}
const retention = (audit: AuditProcess, apply = false) =>
  asked<ApplyRetentionReply>(audit, (client, done) => client.applyRetention({ apply, subject: 'root-admin' }, done));
const hold = (audit: AuditProcess, scope: string) =>
  asked<HoldList>(audit, (client, done) => client.setHold({ scope, ...who }, done));
const release = (audit: AuditProcess, scope: string) =>
  asked<HoldList>(audit, (client, done) => client.releaseHold({ scope, ...who }, done));

async function fsck(audit: AuditProcess): Promise<unknown[]> {
  const client = grpcClient(EvidenceClient, `127.0.0.1:${audit.port}`);
  const problems: unknown[] = [];
  for await (const report of client.checkDatabase({}) as AsyncIterable<CheckDatabaseReport>)
    problems.push(...report.problems);
  client.close();
  return problems;
}

const over = (callId: string) => [
  entry(callId, 'call.rejected', 'rejected'),
  entry(callId, 'call.closed', '', { detail: { state: 'rejected' } }),
];
const facts = { session: 'ses_1', agent: { id: 'sample', on_behalf_of: 'ann' } };
const call = (callId: string) => ({
  ...received(callId, { principal: 'ann' }),
  entries: [entry(callId, 'call.received', 'received', facts), ...over(callId)],
});

/** A log of 303 entries that is 500 days old, with one call that crosses the end of its first partition. */
beforeEach(async () => {
  const past = await suite.start(SMALL, 500);
  await past.append({ entries: [note('a', 'admin.changed', 'ent_a1')] });
  await past.append(session(0n, text('{"name":"s"}'), 'ent_s1'));
  const calls = Array.from({ length: 100 }, (_, at) => past.append(call(`call_${at}`)));
  expect((await Promise.all(calls)).filter(({ refusal }) => refusal)).toEqual([]);
  await past.kill();
});

describe('the oldest entries', () => {
  test('are dropped once they are past their time; what is left verifies with their hashes, also beside an older checkpoint, and goes on', async () => {
    const audit = await suite.start(SMALL);
    const before = (await audit.exportLog()).checkpoint;
    expect(await retention(audit)).toMatchObject({ entries: 256n, keptBecause: '' });
    expect(await retention(audit, true)).toMatchObject({ entries: 256n, keptBecause: '', more: true });
    const tables = await queryOnce(
      suite.databaseUrl,
      "select to_regclass('audit.entry_f0') as gone, count(*)::int as calls from audit.call",
    );
    expect(tables).toEqual([{ gone: null, calls: 16 }]);
    const { dropped, leaves } = await audit.exportLog();
    const told = leaves.map((leaf) => JSON.parse(new TextDecoder().decode(leaf)));
    expect([dropped.length, told[0].index]).toEqual([256, 256]);
    expect(told.at(-1)).toMatchObject({
      type: 'retention.dropped',
      detail: { first: 0, until: 256, subject: 'root-admin' },
    });
    expect((await suite.verified(audit, { olderCheckpoint: before })).problems).toEqual([]);
    expect(await fsck(audit)).toEqual([]);
    expect((await audit.append({ entries: [note('a', 'admin.changed', 'ent_a2')] })).refusal).toBeUndefined();
    expect((await audit.append(session(1n, text('{"name":"t"}'), 'ent_s2'))).refusal).toBeUndefined();
    await audit.kill();
    const again = await suite.start(SMALL);
    expect((await again.append({ entries: [note('a', 'admin.changed', 'ent_a3')] })).refusal).toBeUndefined();
    expect(
      (await again.append({ ...call('call_0'), entries: [entry('call_0', 'call.received', 'received', { other: 1 })] }))
        .refusal,
    ).toBeDefined();
    expect((await suite.verified(again)).problems).toEqual([]);
    expect(await fsck(again)).toEqual([]);
    expect(await retention(again)).toMatchObject({ entries: 0n, keptBecause: 'the oldest partition is not full' });
  });

  test('that are missing beyond what was said, or in the middle, are found', async () => {
    const audit = await suite.start(SMALL);
    await retention(audit, true);
    const { dropped, leaves } = await audit.exportLog();
    const hidden = leaves.map((leaf) => ({ leafHash: leafHash(sha256, leaf) }));
    const found = async (all: readonly (Uint8Array | { leafHash: Uint8Array })[]) =>
      (await suite.verified(audit, { leaves: all })).problems.map(({ index, code }: Problem) => `${code}@${index}`);
    expect(await found([...dropped, ...hidden.slice(0, 1), ...leaves.slice(1)])).toEqual(['not_announced@256']);
    expect(await found([...dropped, ...leaves.slice(0, 5), ...hidden.slice(5, 6), ...leaves.slice(6)])).toContain(
      'dropped_inside@261',
    );
    expect(await found([...hidden.slice(0, 1), ...dropped.slice(1), ...leaves])).toContain('root@0');
    expect(await found(leaves)).toContain('index@0');
  });

  test('stay inside their time, under a hold, with an open call, before streams have them, and when nothing said that they go', async () => {
    const sink = { name: 'siem', to: { kind: 'file', path: path.join(suite.folder, 'missing/lines.ndjson') } };
    const first = await suite.start({ ...SMALL, streams: [sink] });
    expect((await retention(first, true)).keptBecause).toBe('`siem` has not taken its entries yet');
    await first.kill();
    const strict = await suite.start({ ...SMALL, retention: { entryDays: 600 } });
    expect((await retention(strict, true)).keptBecause).toBe('its newest entry is younger than 600 days');
    await strict.kill();
    const audit = await suite.start(SMALL);
    for (const scope of ['all', 'range:10-20', 'session:ses_1', 'agent:sample', 'principal:ann']) {
      await hold(audit, scope);
      expect(await retention(audit, true)).toMatchObject({
        entries: 0n,
        keptBecause: `the hold \`${scope}\` keeps it`,
      });
      await release(audit, scope);
    }
    for (const scope of ['range:256-300', 'session:ses_2', 'principal:bob']) await hold(audit, scope);
    expect((await retention(audit)).keptBecause).toBe('');
    const kept = async (setup: string) => {
      const owner = new pg.Client({ connectionString: suite.databaseUrl });
      await owner.connect();
      await owner.query(`begin; ${setup}`);
      const drop = owner.query('select audit.drop_partition(400)').then(
        () => 'dropped',
        (error: Error) => error.message,
      );
      const said = await drop;
      await owner.end();
      return said;
    };
    expect(await kept('')).toMatch(/no entry says that it will be dropped/);
    expect(await kept('update audit.story set closed_index = null where received_index = 102')).toMatch(
      /calls of it are open/,
    );
    expect(await kept('alter table audit.node disable trigger append_only; delete from audit.node')).toMatch(
      /tiles do not hold/,
    );
    expect(
      await kept(
        "update audit.document set key = 'nonsense' where kind = 'hold' and key = 'principal:bob'; update audit.document set value = '{}' where kind = 'hold' and key = 'nonsense'",
      ),
    ).toMatch(/hold `nonsense` keeps it/);
    await expect(queryOnce(suite.databaseUrl, 'select audit.drop_partition(100)')).rejects.toThrow(/at least 184 days/);
    // As after a kill between the drop and the entry that says so.
    await queryOnce(
      suite.databaseUrl,
      `insert into audit.document values ('partition', '0', 1, '{"first":0,"until":256,"subject":"root-admin","state":"begun"}');
       select audit.drop_partition(400)`,
    );
    await audit.kill();
    const again = await suite.start(SMALL);
    const { leaves } = await again.exportLog();
    expect(new TextDecoder().decode(leaves.at(-1))).toContain('"type":"retention.dropped"');
    expect((await suite.verified(again)).problems).toEqual([]);
  });
});
