import type pg from 'pg';
import { describe, expect, test, vi } from 'vitest';
import { decision } from '../../test/drafts.ts';
import { expectRecorded, load, queryOnce } from '../../test/load.ts';
import { type AuditProcess, useAudit } from '../../test/use-audit.ts';

vi.setConfig({ testTimeout: 90_000 });
const suite = useAudit();
const QUICK_LEASE = { lease: { renewMs: 300, ttlMs: 1_500 } };

const query = <T extends pg.QueryResultRow>(text: string) => queryOnce<T>(suite.databaseUrl, text);

const writerPid = async () => (await query<{ pid: number }>('select pid from audit.lease'))[0]?.pid ?? 0;

const expectAll = (audit: AuditProcess, answered: readonly string[]) =>
  expectRecorded(suite, { audit, url: suite.databaseUrl, answered });

describe('two replicas', () => {
  test('one writes and the other stands by; after a kill the other has everything that was answered', async () => {
    const leader = await suite.start(QUICK_LEASE);
    const standby = await suite.spawn(QUICK_LEASE);
    const { answered, stop } = load(leader, 'a');
    await expect.poll(() => answered.length, { timeout: 20_000 }).toBeGreaterThan(20);
    expect(await standby.isServing()).toBe(false);
    const before = await writerPid();
    await leader.kill();
    stop();
    await standby.serving();
    expect(await writerPid()).not.toBe(before);
    await expectAll(standby, answered);
    expect((await standby.append(decision(answered[0] ?? '', 'allow'))).refusal).toBeUndefined();
  });

  test('a writer that was stopped while the other took over commits nothing when it goes on, and ends', async () => {
    const old = await suite.start(QUICK_LEASE);
    const { answered, stop } = load(old, 'a');
    await expect.poll(() => answered.length, { timeout: 20_000 }).toBeGreaterThan(20);
    old.child.kill('SIGSTOP');
    const next = await suite.start(QUICK_LEASE);
    const taken = await query<{ n: string }>('select next_index n from audit.head');
    old.child.kill('SIGCONT');
    expect(await old.ended).toBe(1);
    stop();
    expect(await query('select next_index n from audit.head')).toEqual(taken);
    await expectAll(next, answered);
  });

  test('a leader that ends in order leaves the lease free at once', async () => {
    const leader = await suite.start();
    leader.child.kill('SIGTERM');
    expect(await leader.ended).toBe(0);
    expect(await query('select holder, pid from audit.lease')).toEqual([{ holder: '', pid: null }]);
    await suite.start();
  });

  test('a standby ends on a signal', async () => {
    await suite.start();
    const standby = await suite.spawn();
    await expect
      .poll(async () => query("select 1 from pg_stat_activity where application_name = 'countersign-audit-lease'"), {
        timeout: 20_000,
      })
      .toHaveLength(2);
    standby.child.kill('SIGTERM');
    expect(await standby.ended).toBe(0);
  });
});

describe('the database', () => {
  test('after a crash and recovery of PostgreSQL in the middle of a burst everything that was answered is there', async () => {
    const audit = await suite.start();
    const { answered, stop } = load(audit, 'a');
    await expect.poll(() => answered.length, { timeout: 20_000 }).toBeGreaterThan(20);
    process.kill(await writerPid(), 'SIGKILL');
    expect(await audit.ended).toBe(1);
    stop();
    await expect
      .poll(
        () =>
          query('select 1').then(
            () => true,
            () => false,
          ),
        { timeout: 20_000 },
      )
      .toBe(true);
    await expectAll(await suite.start(), answered);
  });
});
