import { createConnection } from 'node:net';
import pg from 'pg';
import { describe, expect, test } from 'vitest';
import { useNats, usePostgres } from './index.ts';

const ports: number[] = [];

const isOpen = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = createConnection(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.unref().once('connect', () => socket.destroy());
  });

describe('a suite', () => {
  const postgres = usePostgres();
  const nats = useNats({ configText: 'authorization { users: [ { user: a, password: b } ] }' });

  test('has a PostgreSQL of its own', async () => {
    ports.push(postgres().port);
    const client = new pg.Client({ connectionString: postgres().url });
    await client.connect();
    expect((await client.query("select current_setting('listen_addresses') as address")).rows).toEqual([
      { address: '127.0.0.1' },
    ]);
    await client.end();
  });

  test('has a nats-server of its own', async () => {
    ports.push(nats().port);
    expect(await isOpen(nats().port)).toBe(true);
  });
});

test('both servers are gone when their suite is over', async () => {
  expect(ports).toHaveLength(2);
  expect(await Promise.all(ports.map(isOpen))).toEqual([false, false]);
});
