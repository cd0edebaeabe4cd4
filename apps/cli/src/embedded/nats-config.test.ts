import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createIdentity, type IdentityFile } from '@countersign/protocol';
import { connectNats, inboxPrefix, type NatsConnection } from '@countersign/service-kit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type NatsRole, natsServerConfig } from './nats-config.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'countersign-nats-'));
const open: NatsConnection[] = [];
let server: ChildProcess;
let url = '';
let members: Record<string, IdentityFile> = {};

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => probe.once('listening', resolve));
  const address = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  if (address === null || typeof address === 'string') throw new TypeError('no port');
  return address.port;
}

async function connection(name: string): Promise<NatsConnection> {
  const member = members[name];
  if (!member) throw new TypeError(name);
  const made = await connectNats({
    url,
    seed: member.seed,
    name,
    inboxPrefix: inboxPrefix(member.role, member.id),
  });
  open.push(made);
  return made;
}

/** True when the broker refused the publication. */
async function refusedPublish(from: NatsConnection, subject: string, reply?: string): Promise<boolean> {
  const refusals: string[] = [];
  const statuses = from.status();
  void (async () => {
    for await (const status of statuses) if (status.type === 'error') refusals.push(String(status.error));
  })();
  from.publish(subject, 'x', reply === undefined ? {} : { reply });
  await from.flush();
  await from.flush();
  return refusals.some((text) => text.includes(subject) && /permissions violation/i.test(text));
}

async function refusedSubscription(by: NatsConnection, subject: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  by.subscribe(subject, {
    callback: (error) => {
      if (error) resolve(true);
    },
  });
  await by.flush();
  await by.flush();
  return Promise.race([promise, new Promise<boolean>((settle) => setImmediate(settle, false))]);
}

beforeAll(async () => {
  const made: [string, NatsRole, string][] = [
    ['alice', 'agent', 'alice'],
    ['bob', 'agent', 'bob'],
    ['host', 'host', 'local'],
    ['gateway', 'gateway', 'gateway'],
    ['audit', 'audit', 'audit'],
  ];
  members = Object.fromEntries(
    await Promise.all(made.map(async ([name, role, id]) => [name, await createIdentity(role, id)] as const)),
  );
  const port = await freePort();
  url = `127.0.0.1:${port}`;
  const file = path.join(folder, 'nats.conf');
  const users = made.map(([name, role, id]) => ({ role, id, publicKey: members[name]?.publicKey ?? '' }));
  writeFileSync(file, natsServerConfig(users, { port, storeDir: path.join(folder, 'jetstream') }));
  server = spawn('nats-server', ['-c', file], { stdio: ['ignore', 'ignore', 'pipe'] });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.stderr?.on('data', (chunk) => String(chunk).includes('Server is ready') && resolve());
  });
});

afterAll(async () => {
  await Promise.all(open.map((one) => one.close()));
  server.kill('SIGTERM');
  rmSync(folder, { recursive: true, force: true });
});

describe('broker permissions', () => {
  test('nobody connects without a known key', async () => {
    const stranger = await createIdentity('agent', 'alice');
    const connecting = connectNats({ url, seed: stranger.seed, name: 'x', inboxPrefix: '_INBOX_agent_alice' });
    await expect(connecting).rejects.toThrow(/authorization violation/i);
  });

  test.each([
    'cs.v1.call.bob',
    'cs.v1.cancel.bob',
    'cs.v1.lease.bob.ses_1',
    'cs.v1.outcome.local',
    'cs.v1.work.local',
    'cs.v1.event.alice.ses_1',
    'cs.v1.checkpoint',
    '$JS.API.CONSUMER.CREATE.CALLS',
    '$JS.API.CONSUMER.DURABLE.CREATE.CALLS.mine',
    '$JS.API.STREAM.CREATE.MINE',
    '$JS.API.STREAM.INFO.CALLS',
    '$JS.API.DIRECT.GET.CALLS',
    '$KV.SESSIONS.x',
  ])('an agent cannot publish on `%s`', async (subject) => {
    expect(await refusedPublish(await connection('alice'), subject)).toBe(true);
  });

  test('an agent publishes its own calls, cancels and leases', async () => {
    const alice = await connection('alice');
    for (const subject of ['cs.v1.call.alice', 'cs.v1.cancel.alice', 'cs.v1.lease.alice.ses_1']) {
      expect(await refusedPublish(alice, subject)).toBe(false);
    }
  });

  test.each(['cs.v1.event.bob.>', 'cs.v1.event.*.*', 'cs.v1.>', '_INBOX_agent_bob.>', '_INBOX.>', 'cs.v1.call.alice'])(
    'an agent cannot subscribe to `%s`',
    async (subject) => {
      expect(await refusedSubscription(await connection('alice'), subject)).toBe(true);
    },
  );

  test.each([
    'cs.v1.outcome.other',
    'cs.v1.heartbeat.other',
    'cs.v1.call.alice',
    'cs.v1.checkpoint',
    '$JS.API.CONSUMER.CREATE.WORK',
    '$JS.API.CONSUMER.MSG.NEXT.WORK.work-other',
    '$JS.ACK.WORK.work-other.1',
  ])('a host cannot publish on `%s`', async (subject) => {
    expect(await refusedPublish(await connection('host'), subject)).toBe(true);
  });

  test.each(['cs.v1.work.local', 'cs.v1.inspect.other', 'cs.v1.control.*'])(
    'a host cannot subscribe to `%s`',
    async (subject) => {
      expect(await refusedSubscription(await connection('host'), subject)).toBe(true);
    },
  );

  test('a host answers an inspection that the gateway asked for', async () => {
    const [host, gateway] = [await connection('host'), await connection('gateway')];
    host.subscribe('cs.v1.inspect.local', {
      callback: (_error, message) => {
        message.respond('facts');
      },
    });
    await host.flush();
    const answer = await gateway.request('cs.v1.inspect.local', 'ask', { timeout: 2_000 });
    expect(answer.string()).toBe('facts');
  });

  test('the beat of audit reaches the host', async () => {
    const [host, audit] = [await connection('host'), await connection('audit')];
    const { promise, resolve } = Promise.withResolvers<string>();
    host.subscribe('cs.v1.checkpoint', { callback: (_error, message) => resolve(message.string()) });
    await host.flush();
    audit.publish('cs.v1.checkpoint', 'beat');
    expect(await promise).toBe('beat');
  });
});
