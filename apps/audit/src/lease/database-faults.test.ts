import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type EmbeddedPostgres, freePort, startPostgres } from '@countersign/service-kit/embedded';
import { afterEach, expect, test, vi } from 'vitest';
import { received, text } from '../../test/drafts.ts';
import { expectRecorded, load, queryOnce } from '../../test/load.ts';
import { QUICK } from '../../test/new-database.ts';
import { useAudit } from '../../test/use-audit.ts';

vi.setConfig({ testTimeout: 120_000 });
const suite = useAudit();
const folder = mkdtempSync(path.join(tmpdir(), 'countersign-faults-'));
const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
  rmSync(folder, { recursive: true, force: true });
});

const LEASE = { lease: { renewMs: 300, ttlMs: 1_500 } };
const POLL = { timeout: 30_000 };
const PRIMARY = { wal_level: 'replica', fsync: 'off' };

/** A server that follows `primary` and has everything that was answered there. */
async function standbyOf(primary: EmbeddedPostgres): Promise<EmbeddedPostgres> {
  const [from, to] = [path.join(folder, 'primary'), path.join(folder, 'standby')];
  const { default: pg } = await import('pg');
  const client = new pg.Client({ connectionString: primary.url });
  await client.connect();
  await client.query("select pg_backup_start('copy', true)");
  cpSync(from, to, { recursive: true, filter: (file) => path.basename(file) !== 'postmaster.pid' });
  const { rows } = await client.query<{ labelfile: string }>('select labelfile from pg_backup_stop(false)');
  writeFileSync(path.join(to, 'cluster/backup_label'), rows[0]?.labelfile ?? '');
  writeFileSync(path.join(to, 'cluster/standby.signal'), '');
  const { username, password, port } = new URL(primary.url);
  const primary_conninfo = `host=127.0.0.1 port=${port} user=${username} password=${password}`;
  const standby = await startPostgres({ dataDir: to, settings: { ...PRIMARY, primary_conninfo } });
  ends.push(standby.stop);
  await client.query("alter system set synchronous_standby_names = '*'");
  await client.query('select pg_reload_conf()');
  const state = async () => (await client.query('select sync_state from pg_stat_replication')).rows;
  await expect.poll(state, POLL).toEqual([{ sync_state: 'sync' }]);
  await client.end();
  return standby;
}

test('after a promotion the standby has everything that was answered, and the old writer answers nothing more', async () => {
  const primary = await startPostgres({ dataDir: path.join(folder, 'primary'), settings: PRIMARY });
  ends.push(primary.stop);
  const standby = await standbyOf(primary);
  const old = await suite.start({ ...LEASE, databaseUrl: primary.url });
  const { answered, stop } = load(old, 'a');
  await expect.poll(() => answered.length, POLL).toBeGreaterThan(20);
  // The worst case: nobody fenced the old primary, which runs on without its standby.
  await queryOnce(standby.url, 'select pg_promote()');
  const next = await suite.start({ ...LEASE, databaseUrl: standby.url });
  const waiting = `select pid from pg_stat_activity where wait_event = 'SyncRep'`;
  await expect.poll(() => queryOnce(primary.url, waiting), POLL).not.toEqual([]);
  await queryOnce(primary.url, `select pg_cancel_backend(pid) from (${waiting}) w`);
  expect(await old.ended).toBe(1);
  stop();
  await expectRecorded(suite, { audit: next, url: standby.url, answered });
  const after = load(next, 'b');
  await expect.poll(() => after.answered.length, POLL).toBeGreaterThan(20);
  after.stop();
});

/** A server whose tables lie on a disk of 32 MiB, 8 of them taken by a file that `free` removes. */
async function onSmallDisk(): Promise<{ url: string; free: () => void }> {
  const dataDir = path.join(folder, 'small');
  const made = await startPostgres({ dataDir });
  const binary = readlinkSync(`/proc/${made.pid}/exe`);
  await made.stop();
  const disk = path.join(folder, 'disk');
  mkdirSync(disk);
  const port = await freePort();
  const settings = { ...QUICK, listen_addresses: '127.0.0.1', port: String(port), unix_socket_directories: '' };
  const server = [binary, '-D', path.join(dataDir, 'cluster')];
  for (const [name, value] of Object.entries(settings)) server.push('-c', `${name}=${value}`);
  const script = 'head -c 8388608 /dev/zero > "$0/ballast" && mkdir "$0/space" && chmod 700 "$0/space" && exec "$@"';
  const user = ['--unshare-user', '--uid', '65534', '--gid', '65534'];
  const mounts = ['--bind', '/', '/', '--dev-bind', '/dev', '/dev', '--size', '33554432', '--tmpfs', disk];
  const child = spawn('/usr/bin/bwrap', [...user, ...mounts, '--', '/bin/sh', '-c', script, disk, ...server], {
    env: { PATH: '/usr/bin:/bin', LC_ALL: 'C.UTF-8', TZ: 'UTC' },
    stdio: 'ignore',
  });
  ends.push(async () => {
    child.kill('SIGKILL');
    await new Promise((resolve) =>
      child.exitCode === null && child.signalCode === null ? child.once('exit', resolve) : resolve(0),
    );
  });
  const at = new URL(made.url);
  at.port = String(port);
  const admin = (query: string) => queryOnce(at.href, query);
  await expect
    .poll(
      () =>
        admin('select 1').then(
          () => true,
          () => false,
        ),
      POLL,
    )
    .toBe(true);
  await admin(`create tablespace small location '${path.join(disk, 'space')}'`);
  await admin('create database on_small tablespace small');
  const [row] = await queryOnce<{ pid: number }>(
    at.href,
    "select split_part(pg_read_file('postmaster.pid'), e'\\n', 1)::int as pid",
  );
  at.pathname = '/on_small';
  return { url: at.href, free: () => rmSync(path.join(`/proc/${row?.pid}/root`, disk, 'ballast')) };
}

test('a full disk ends the writer; once there is room again the log goes on with everything that was answered', async () => {
  const { url, free } = await onSmallDisk();
  const audit = await suite.start({ ...LEASE, databaseUrl: url });
  const { answered, stop } = load(audit, 'a', { sealedPayload: text('x'.repeat(65_536)) });
  expect(await audit.ended).toBe(1);
  stop();
  expect(answered.length).toBeGreaterThan(20);
  free();
  const next = await suite.start({ ...LEASE, databaseUrl: url });
  expect((await next.append(received('call_after'))).refusal).toBeUndefined();
  await expectRecorded(suite, { audit: next, url, answered: [...answered, 'call_after'] });
});
