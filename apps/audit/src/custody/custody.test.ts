import { existsSync } from 'node:fs';
import path from 'node:path';
import {
  type ApplyRetentionReply,
  type AskReply,
  AskRequest,
  CustodyClient,
  type EraseReply,
  EvidenceClient,
  type GetPayloadReply,
  type HoldList,
} from '@countersign/protocol';
import { grpcClient } from '@countersign/service-kit';
import { type ServiceError, status } from '@grpc/grpc-js';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { entry, received } from '../../test/drafts.ts';
import { type AuditProcess, useAudit } from '../../test/use-audit.ts';
import { payloadKeyId } from '../payload/payload-keys.ts';

vi.setConfig({ testTimeout: 60_000 });
const suite = useAudit();
let audit: AuditProcess;
let custody: CustodyClient;
let evidence: EvidenceClient;

const connect = () => {
  custody = grpcClient(CustodyClient, `127.0.0.1:${audit.port}`);
  evidence = grpcClient(EvidenceClient, `127.0.0.1:${audit.port}`);
};
beforeEach(async () => {
  audit = await suite.start();
  connect();
});
afterEach(() => {
  custody.close();
  evidence.close();
});

function answered<T>(start: (done: (error: ServiceError | null, value: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => start((error, value) => (error ? reject(error) : resolve(value))));
}
const why = { reason: 'a request of the subject', subject: 'root-admin' };
const hold = (scope: string) => answered<HoldList>((done) => custody.setHold({ scope, ...why }, done));
const release = (scope: string) => answered<HoldList>((done) => custody.releaseHold({ scope, ...why }, done));
const erase = (scope: string) => answered<EraseReply>((done) => custody.erase({ scope, ...why }, done));
const payload = (callId: string) =>
  answered<GetPayloadReply>((done) => audit.client.getPayload({ callId, reader: 'ann' }, done));
const keyFile = (session: string) =>
  path.join(suite.folder, `keys-${path.basename(suite.databaseUrl)}`, payloadKeyId(session));

/** A call of `session` that was rejected, so that it is over. */
const over = (callId: string, sessionId: string, principal: string) =>
  audit.append({
    ...received(callId, { sessionId }),
    entries: [
      entry(callId, 'call.received', 'received', {
        session: sessionId,
        agent: { id: 'sample', on_behalf_of: principal },
      }),
      entry(callId, 'call.rejected', 'rejected'),
      entry(callId, 'call.closed', '', { detail: { state: 'rejected' } }),
    ],
  });

describe('erasure', () => {
  test('makes the payloads of its subject unreadable, nobody else`s, and the log says so and verifies', async () => {
    await over('call_a', 'ses_a', 'ann');
    await over('call_b', 'ses_b', 'bob');
    expect(Buffer.from((await payload('call_a')).sealedPayload).toString()).toBe('sealed');
    expect(await erase('principal:ann')).toMatchObject({ sessions: 1, remaining: 0 });
    expect(await payload('call_a')).toMatchObject({ erased: true, sealedPayload: { length: 0 } });
    expect((await payload('call_b')).erased).toBe(false);
    expect(existsSync(keyFile('ses_a'))).toBe(false);
    const verified = await suite.verified(audit);
    expect(verified.problems).toEqual([]);
    expect(verified.ended).toMatchObject([{ type: 'erasure.done', scope: 'principal:ann', sessions: 1 }]);
    const asked = await answered<AskReply>((done) =>
      evidence.ask(AskRequest.fromPartial({ question: 'erasures' }), done),
    );
    const rows = JSON.parse(Buffer.from(asked.rows).toString()) as unknown[][];
    expect(rows.map((row) => row.slice(2))).toEqual([['erasure.done', 'root-admin', 'principal:ann']]);
    // What was erased stays erased, and a later payload of the session is readable.
    await expect(erase('principal:ann')).rejects.toMatchObject({ code: status.NOT_FOUND });
    await over('call_c', 'ses_a', 'ann');
    expect((await payload('call_c')).erased).toBe(false);
    expect((await payload('call_a')).erased).toBe(true);
  });

  test('is refused under a hold of any scope that it touches, and possible after the release', async () => {
    await over('call_a', 'ses_a', 'ann');
    for (const scope of ['all', 'session:ses_a', 'agent:sample', 'principal:ann', 'range:0-3']) {
      expect((await hold(scope)).holds).toMatchObject([{ scope, subject: 'root-admin' }]);
      await expect(erase('session:ses_a')).rejects.toMatchObject({ code: status.FAILED_PRECONDITION });
      expect([scope, (await payload('call_a')).erased]).toEqual([scope, false]);
      expect((await release(scope)).holds).toEqual([]);
    }
    for (const scope of ['session:ses_b', 'agent:other', 'principal:bob', 'range:900-999']) await hold(scope);
    expect((await erase('session:ses_a')).sessions).toBe(1);
  });

  test('is refused while a call of the subject is open, and for what is no scope', async () => {
    await audit.append(received('call_a', { sessionId: 'ses_a' }));
    await over('call_b', 'ses_a', 'ann');
    await expect(erase('session:ses_a')).rejects.toMatchObject({ code: status.FAILED_PRECONDITION });
    for (const scope of ['', 'all', 'range:0-9', 'session:', 'session:a b', 'principal:a\0'])
      await expect(erase(scope)).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    await expect(hold('range:9-1')).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    await expect(release('all')).rejects.toMatchObject({ code: status.NOT_FOUND });
    expect(existsSync(keyFile('ses_a'))).toBe(true);
  });

  test('that a kill cut short is ended at the next start', async () => {
    await over('call_a', 'ses_a', 'ann');
    await audit.kill();
    const database = new pg.Client({ connectionString: suite.databaseUrl });
    await database.connect();
    const begun = { scope: 'session:ses_a', ...why, state: 'begun', sessions: ['ses_a'] };
    await database.query("insert into audit.document values ('erasure', 'era_1', 1, $1)", [JSON.stringify(begun)]);
    await database.end();
    audit = await suite.start();
    expect((await payload('call_a')).erased).toBe(true);
    expect((await suite.verified(audit)).ended).toMatchObject([{ scope: 'session:ses_a' }]);
  });

  test('cannot be said, nor a hold, by anybody but the record', async () => {
    for (const type of ['erasure.done', 'hold.set', 'hold.released', 'retention.dropped', 'gap.found'])
      expect((await audit.append({ entries: [{ ...entry('', type), stream: 'x' }] })).refusal?.code).toBe(
        'countersign.audit.invalid',
      );
    const forged = await audit.append({
      entries: [{ ...entry('', 'admin.changed'), stream: 'x' }],
      documents: [{ kind: 'hold', key: 'all', value: new TextEncoder().encode('{}'), expectedVersion: 0n }],
    });
    expect(forged.refusal?.code).toBe('countersign.audit.invalid');
  });
});

test('retention ends payloads that are past their time and not held, and only when it is told to', async () => {
  await over('call_a', 'ses_a', 'ann');
  await over('call_b', 'ses_b', 'bob');
  const retain = (apply: boolean) =>
    answered<ApplyRetentionReply>((done) => custody.applyRetention({ apply, subject: 'root-admin' }, done));
  expect(await retain(true)).toMatchObject({ sessions: 0 });
  // The log's time goes on by two years: the columns that are asked are moved back instead.
  const database = new pg.Client({ connectionString: suite.databaseUrl });
  await database.connect();
  await database.query('update audit.fact set recorded_ms = recorded_ms - 730 * 86400000::bigint');
  await database.end();
  await hold('session:ses_b');
  expect(await retain(false)).toMatchObject({ sessions: 1, heldSessions: 1, more: false });
  expect(existsSync(keyFile('ses_a'))).toBe(true);
  expect(await retain(true)).toMatchObject({ sessions: 1, heldSessions: 1 });
  expect([existsSync(keyFile('ses_a')), existsSync(keyFile('ses_b'))]).toEqual([false, true]);
});
