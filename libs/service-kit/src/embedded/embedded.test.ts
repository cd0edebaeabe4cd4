import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { createUser } from '@nats-io/nkeys';
import { connect, nkeyAuthenticator } from '@nats-io/transport-node';
import pg from 'pg';
import { afterEach, expect, test, vi } from 'vitest';
import { startNats, startPostgres } from './index.ts';

const folders: string[] = [];
const temporary = () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'countersign-embedded-'));
  folders.push(folder);
  return folder;
};

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

async function query(url: string, text: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end().catch(() => undefined);
  }
}

test('PostgreSQL keeps its data over an orderly stop and over a kill', async () => {
  const dataDir = temporary();
  const first = await startPostgres({ dataDir });
  await query(first.url, 'create table kept (n int)');
  await query(first.url, 'insert into kept values (1)');
  await first.stop();
  const second = await startPostgres({ dataDir });
  await query(second.url, 'insert into kept values (2)');
  process.kill(second.pid, 'SIGKILL');
  const third = await startPostgres({ dataDir });
  expect(await query(third.url, 'select n from kept order by n')).toEqual([{ n: 1 }, { n: 2 }]);
  await third.stop();
});

test('PostgreSQL refuses a wrong password', async () => {
  const server = await startPostgres({ dataDir: temporary() });
  await expect(query(server.url.replace(/:[0-9a-f]{48}@/, ':wrong@'), 'select 1')).rejects.toThrow(/password/);
  await server.stop();
});

test('nats-server lets in its users and nobody else, also after a kill', async () => {
  const user = createUser();
  const dataDir = temporary();
  const configText = `authorization { users: [ { nkey: ${user.getPublicKey()} } ] }`;
  const first = await startNats({ dataDir, configText });
  process.kill(first.pid, 'SIGKILL');
  const server = await startNats({ dataDir, configText });
  const authenticated = await connect({ servers: server.url, authenticator: nkeyAuthenticator(user.getSeed()) });
  await authenticated.flush();
  await authenticated.close();
  await expect(connect({ servers: server.url, reconnect: false })).rejects.toThrow();
  const stranger = nkeyAuthenticator(createUser().getSeed());
  await expect(connect({ servers: server.url, reconnect: false, authenticator: stranger })).rejects.toThrow();
  await server.stop();
});

test('JetStream keeps its messages over an orderly stop', async () => {
  const dataDir = temporary();
  const configText = 'authorization { users: [ { user: a, password: b } ] }';
  const login = { user: 'a', pass: 'b' };
  const first = await startNats({ dataDir, configText });
  const writer = await connect({ servers: first.url, ...login });
  await (await jetstreamManager(writer)).streams.add({ name: 'KEPT', subjects: ['kept'] });
  await jetstream(writer).publish('kept', 'text');
  await writer.close();
  await first.stop();
  const second = await startNats({ dataDir, configText });
  const reader = await connect({ servers: second.url, ...login });
  const message = await (await jetstreamManager(reader)).streams.getMessage('KEPT', { seq: 1 });
  expect(message?.string()).toBe('text');
  await reader.close();
  await second.stop();
});

test('a reload lets in a new user and drops a removed one without a restart', async () => {
  const configText = (name: string) => `authorization { users: [ { user: ${name}, password: b } ] }`;
  const server = await startNats({ dataDir: temporary(), configText: configText('old') });
  const enter = (user: string) => connect({ servers: server.url, user, pass: 'b', reconnect: false });
  await (await enter('old')).close();
  await server.reload(configText('new'));
  await vi.waitFor(async () => (await enter('new')).close(), { timeout: 5_000 });
  await expect(enter('old')).rejects.toThrow(/Authorization/i);
  await server.stop();
});

test('secrets of both servers are readable by their owner only', async () => {
  const [postgresDir, natsDir] = [temporary(), temporary()];
  const postgres = await startPostgres({ dataDir: postgresDir });
  const nats = await startNats({
    dataDir: natsDir,
    configText: 'authorization { users: [ { user: a, password: b } ] }',
  });
  const mode = (...file: string[]) => statSync(path.join(...file)).mode & 0o777;
  expect([mode(postgresDir, 'password'), mode(natsDir, 'nats.conf')]).toEqual([0o600, 0o600]);
  await Promise.all([postgres.stop(), nats.stop()]);
});

test('a broker without users is refused before it starts', async () => {
  await expect(startNats({ dataDir: temporary(), configText: '' })).rejects.toThrow(/open broker/);
});
