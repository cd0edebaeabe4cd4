import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { type AppendReply, AppendRequest, createIdentity, verifyReceipt } from '@countersign/protocol';
import { status } from '@grpc/grpc-js';
import pg from 'pg';
import { beforeEach, describe, expect, test } from 'vitest';
import { type Draft, dispatch, entry, json, received } from '../test/drafts.ts';
import { type AuditProcess, useAudit } from '../test/use-audit.ts';

const suite = useAudit();
let audit: AuditProcess;

beforeEach(async () => {
  audit = await suite.start();
});

const append = (request: Draft) => audit.append(request);
const getCall = (callId: string) => audit.getCall(callId);
const exportLog = () => audit.exportLog();
const verified = () => suite.verified(audit);
const restart = async (changes?: object) => {
  audit = await suite.start(changes);
};

const allow = { decision: { effect: 'allow', decided_by: 'human' } };
const submit = (callId: string) =>
  append({
    ...received(callId),
    entries: [entry(callId, 'call.received', 'received'), entry(callId, 'approval.requested', 'pending')],
    view: json({ command: 'true' }),
  });
const approve = (callId: string, who: string) =>
  append({
    entries: [
      entry(callId, 'approval.answered', '', { approver: { subject: who } }, who),
      entry(callId, 'decision', 'approved', { ...allow, approver: { subject: who } }, who),
    ],
    decidedBy: 'human',
    decidedByName: who,
  });

describe('decisions', () => {
  test('two approvals at once: one decision, and the loser is told who won', async () => {
    await submit('call_a');
    const replies = await Promise.all([approve('call_a', 'ann'), approve('call_a', 'bob')]);
    expect(replies.map((reply) => reply.refusal?.code ?? 'recorded')).toEqual(['recorded', 'countersign.audit.lost']);
    expect(replies[1]?.refusal).toMatchObject({ state: 'approved', winner: 'ann', winnerKind: 'human' });
    expect((await verified()).problems).toEqual([]);
  });

  test('a dispatch gives a receipt that binds call, order and host; without an approval there is none', async () => {
    await submit('call_a');
    expect((await append(dispatch('call_a'))).refusal?.code).toBe('countersign.audit.lost');
    await approve('call_a', 'ann');
    const { receipt } = await append(dispatch('call_a'));
    expect(receipt).toMatchObject({ callId: 'call_a', orderId: 'ord_call_a', host: 'local', decidedBy: 'human' });
    expect(receipt && verifyReceipt(receipt, suite.identities.audit.publicKey)).toBe(true);
  });

  test('a replay gets the first receipt; other content under the same id is refused', async () => {
    const first = await submit('call_a');
    const again = await submit('call_a');
    expect({ ...again, requestId: 0n, replayed: false }).toEqual({ ...first, requestId: 0n });
    expect(again.replayed).toBe(true);
    const forged = await append({
      entries: [entry('call_a', 'call.received', 'received', { detail: { forged: true } })],
    });
    expect(forged.refusal?.code).toBe('countersign.audit.conflict');
  });

  test.each([
    ['an unknown state', { entries: [entry('call_a', 'decision', 'constructor')] }, 'invalid'],
    ['a step outside the table', { entries: [entry('call_a', 'exec.finished', 'done')] }, 'lost'],
    ['an unknown call', { entries: [entry('call_zz', 'decision', 'approved', allow)] }, 'not_found'],
    [
      'another freeze epoch',
      {
        entries: [entry('call_a', 'decision', 'approved', allow), entry('call_a', 'dispatch.sent', 'dispatched')],
        decidedBy: 'human',
        freezeEpoch: 1n,
        orderId: 'ord_1',
        orderHost: 'local',
      },
      'stale_freeze',
    ],
    [
      'another view',
      { entries: [entry('call_a', 'decision', 'approved', allow)], expectedViewDigest: new Uint8Array(32) },
      'stale_view',
    ],
    [
      'another session version',
      { entries: [entry('call_a', 'decision', 'approved', allow)], sessionVersion: 3n, sessionId: 'ses_1' },
      'stale_session',
    ],
    ['an unknown entry type', { entries: [entry('call_a', 'made.up')] }, 'invalid'],
    ['no entries', { entries: [] }, 'invalid'],
  ])('%s is refused and leaves no entry', async (_name, request, code) => {
    await submit('call_a');
    const before = (await exportLog()).leaves.length;
    expect((await append(request)).refusal?.code).toBe(`countersign.audit.${code}`);
    expect((await exportLog()).leaves.length).toBe(before);
    expect((await getCall('call_a')).state).toBe('pending');
  });

  test("an agent cannot take another agent's call id", async () => {
    await submit('call_a');
    const taken = await append({
      call: { callId: 'call_a', agent: 'mallory', sealedPayload: json('x') },
      entries: [entry('call_a', 'call.received', 'received', {}, 'mallory')],
    });
    expect(taken.refusal?.code).toBe('countersign.audit.conflict');
  });
});

describe('reading', () => {
  const payload = (callId: string, reader: string) =>
    new Promise<string>((resolve) =>
      audit.client.getPayload({ callId, reader }, (error, found) =>
        resolve(error ? `code ${error.code}` : Buffer.from(found.sealedPayload).toString()),
      ),
    );

  test('each reading of a payload is an entry, also two at once, and nobody reads without a name', async () => {
    await submit('call_a');
    const before = (await exportLog()).leaves.length;
    expect(await Promise.all([payload('call_a', 'ann'), payload('call_a', 'ann')])).toEqual(['sealed', 'sealed']);
    expect((await getCall('call_a')).sealedPayload.length).toBe(0);
    expect(await payload('call_a', '')).toBe(`code ${status.INVALID_ARGUMENT}`);
    expect(await payload('call_zz', 'ann')).toBe(`code ${status.NOT_FOUND}`);
    expect((await exportLog()).leaves.length).toBe(before + 2);
    expect((await verified()).problems).toEqual([]);
  });

  test('a call id that no call can have is not found', async () => {
    await expect(getCall('a\0')).rejects.toMatchObject({ code: status.NOT_FOUND });
  });

  test('an export of more than one message verifies', async () => {
    await Promise.all(Array.from({ length: 300 }, (_, at) => submit(`call_${at}`)));
    const result = await verified();
    expect(result.problems).toEqual([]);
    expect(result.entries).toBe(601);
  });

  test('a sender that ends its stream still gets every answer', async () => {
    const own = audit.client.append();
    const ids: bigint[] = [];
    own.on('data', (reply: AppendReply) => ids.push(reply.requestId));
    const ended = new Promise((resolve) => own.on('end', resolve));
    for (let at = 1n; at <= 20n; at += 1n) {
      own.write(
        AppendRequest.fromPartial({
          requestId: at,
          entries: [{ ...entry('', 'admin.changed'), stream: 'a', id: `e${at}` }],
        }),
      );
    }
    own.end();
    await ended;
    expect(ids).toHaveLength(20);
  });
});

describe('the record', () => {
  test('every answered request survives a kill in the middle of a burst, once', async () => {
    const answered: string[] = [];
    const burst = Array.from({ length: 200 }, (_, at) => submit(`call_${at}`).then(() => answered.push(`call_${at}`)));
    await expect.poll(() => answered.length, { interval: 1, timeout: 20_000 }).toBeGreaterThan(0);
    await audit.kill();
    await restart();
    for (const callId of answered) expect((await getCall(callId)).state).toBe('pending');
    await Promise.all(Array.from({ length: 200 }, (_, at) => submit(`call_${at}`)));
    const result = await verified();
    expect(result.problems).toEqual([]);
    expect(result.openCalls.length).toBe(200);
    expect(burst.length).toBe(200);
  });

  test('requests that arrive together share one commit', async () => {
    const database = new pg.Client({ connectionString: suite.databaseUrl });
    await database.connect();
    const versions = async () =>
      Number((await database.query<{ n: string }>('select count(distinct xmin::text) n from audit.entry')).rows[0]?.n);
    const before = await versions();
    await Promise.all(Array.from({ length: 50 }, (_, at) => submit(`call_${at}`)));
    const commits = (await versions()) - before;
    await database.end();
    expect(commits).toBeLessThanOrEqual(10);
  });

  test('the writer role can neither change nor remove an entry, and triggers stop the owner', async () => {
    await submit('call_a');
    const database = new pg.Client({ connectionString: suite.databaseUrl });
    await database.connect();
    await expect(database.query("update audit.entry set type = 'x'")).rejects.toThrow(/append-only/);
    await expect(database.query('truncate audit.entry')).rejects.toThrow(/append-only/);
    await expect(database.query('delete from audit.entry_p0')).rejects.toThrow(/append-only/);
    await database.query('set role countersign_writer');
    for (const statement of [
      'delete from audit.entry',
      "update audit.entry set type = 'x'",
      'drop table audit.entry',
      'delete from audit.call',
    ]) {
      await expect(database.query(statement)).rejects.toThrow(/permission denied|must be owner/);
    }
    await database.end();
  });

  test('a login of its own may serve with the rights of the writer role alone', async () => {
    await audit.kill();
    const admin = new pg.Client({ connectionString: suite.databaseUrl });
    await admin.connect();
    const login = `w_${randomUUID().replaceAll('-', '')}`;
    await admin.query(`create role ${login} login password 'test' in role countersign_writer`);
    await admin.end();
    const url = new URL(suite.databaseUrl);
    url.username = login;
    url.password = 'test';
    await restart({ writerUrl: url.href });
    await submit('call_a');
    expect((await getCall('call_a')).state).toBe('pending');
  });

  test('a key that the roster does not hold is no start', async () => {
    await audit.kill();
    const stranger = path.join(suite.folder, 'stranger.json');
    writeFileSync(stranger, JSON.stringify(await createIdentity('log', 'log')), { mode: 0o600 });
    const refused = await suite.spawn({ logIdentityFile: stranger });
    expect(await refused.ended).toBe(1);
  });

  test('a writer that was taken over can commit nothing more and ends', async () => {
    const database = new pg.Client({ connectionString: suite.databaseUrl });
    await database.connect();
    await database.query('update audit.head set epoch = epoch + 1');
    await database.end();
    const { ended } = audit;
    void submit('call_a');
    expect(await ended).toBe(1);
    await restart();
    expect((await exportLog()).leaves.length).toBe(1);
  });
});
