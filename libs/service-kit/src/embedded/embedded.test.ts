import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createUser } from '@nats-io/nkeys';
import { connect, nkeyAuthenticator } from '@nats-io/transport-node';
import pg from 'pg';
import { afterEach, expect, test } from 'vitest';
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

test('a broker without users is refused before it starts', async () => {
  await expect(startNats({ dataDir: temporary(), configText: '' })).rejects.toThrow(/open broker/);
});
