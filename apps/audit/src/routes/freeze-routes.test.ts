import { Beat, EnvelopeKind, type FreezeState, openEnvelope, openIdentity, subjects } from '@countersign/protocol';
import { connectNats, inboxPrefix, type NatsConnection } from '@countersign/service-kit';
import { type ServiceError, status } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { json, note } from '../../test/drafts.ts';
import { type AuditProcess, useAudit } from '../../test/use-audit.ts';

const suite = useAudit();
let audit: AuditProcess;
let connection: NatsConnection;
const beats: Beat[] = [];

beforeEach(async () => {
  const identity = await openIdentity(suite.identities.audit);
  connection = await connectNats({
    url: suite.nats.url,
    seed: identity.seed,
    name: 'test',
    inboxPrefix: inboxPrefix('audit', 'test'),
  });
  beats.length = 0;
  connection.subscribe(subjects.beat(), {
    callback: (_error, message) => {
      const opened = openEnvelope(message.data, {
        kind: EnvelopeKind.BEAT,
        subject: message.subject,
        issuer: identity.publicKey,
        nowMs: Date.now(),
      });
      if (opened.ok) beats.push(Beat.decode(opened.value.body));
    },
  });
  await connection.flush();
  audit = await suite.start();
});
afterEach(() => connection.close());

type Method = 'setFreeze' | 'clearFreeze' | 'getFreeze' | 'confirmFreeze';
function ask(method: Method, request: object): Promise<FreezeState | status> {
  const call = audit.client[method].bind(audit.client) as (
    request: object,
    done: (error: ServiceError | null, state: FreezeState) => void,
  ) => void;
  return new Promise((resolve) => call(request, (error, state) => resolve(error ? error.code : state)));
}
const enrol = (host: string) =>
  audit.append({
    entries: [note(`member.host.${host}`, 'member.joined', `ent_${host}`)],
    documents: [{ kind: 'member', key: `host:${host}`, value: json({ id: host }), expectedVersion: 0n }],
  });

describe('freeze over the wire', () => {
  test('the next beat names the scopes, hosts confirm, those that have not are listed, and a kill changes nothing', async () => {
    await enrol('a');
    await enrol('b');
    const set = { scope: 'agent:sample', reason: 'incident', subject: 'ann', stopRunning: true };
    expect(await ask('setFreeze', set)).toMatchObject({ epoch: 1n, unconfirmedHosts: ['a', 'b'] });
    await ask('setFreeze', { ...set, scope: 'host:b', stopRunning: false });
    await expect
      .poll(() => beats.at(-1))
      .toMatchObject({
        freezeEpoch: 2n,
        frozenScopes: ['agent:sample', 'host:b'],
        stoppedScopes: ['agent:sample'],
        revokedOrders: [],
      });
    const confirmed = await ask('confirmFreeze', { host: 'a', epoch: 2n, running: 1 });
    expect(confirmed).toMatchObject({ confirmations: [{ host: 'a', epoch: 2n, running: 1 }], unconfirmedHosts: ['b'] });
    await audit.kill();
    audit = await suite.start();
    expect(await ask('getFreeze', {})).toEqual(confirmed);
    expect((await suite.verified(audit)).problems).toEqual([]);
    expect(await ask('clearFreeze', { scope: 'host:b', reason: 'over', subject: 'ann' })).toMatchObject({ epoch: 3n });
    await expect.poll(() => beats.at(-1)?.frozenScopes).toEqual(['agent:sample']);
  });

  test.each<[string, Method, object, status]>([
    [
      'an unknown scope',
      'setFreeze',
      { scope: 'x', reason: 'a', subject: 'b', stopRunning: false },
      status.INVALID_ARGUMENT,
    ],
    ['no reason', 'setFreeze', { scope: 'all', reason: '', subject: 'b', stopRunning: false }, status.INVALID_ARGUMENT],
    ['a scope that is not frozen', 'clearFreeze', { scope: 'all', reason: 'a', subject: 'b' }, status.NOT_FOUND],
    ['a host that nobody enrolled', 'confirmFreeze', { host: 'zz', epoch: 0n, running: 0 }, status.NOT_FOUND],
  ])('%s is refused', async (_name, method, request, expected) => {
    expect(await ask(method, request)).toBe(expected);
  });
});
