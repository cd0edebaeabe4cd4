import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import pg from 'pg';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { note, received } from '../../test/drafts.ts';
import { type AuditProcess, useAudit } from '../../test/use-audit.ts';

vi.setConfig({ testTimeout: 90_000 });
const suite = useAudit();
let file = '';

beforeEach(() => {
  file = path.join(suite.folder, `outside-${path.basename(suite.databaseUrl)}`);
});
const start = () => suite.start({ checkpointFile: file });
const sizeOf = (from: string) => Number(readFileSync(from, 'utf8').split('\n')[1]);

async function admin(query: (client: pg.Client, name: string) => Promise<unknown>): Promise<void> {
  const url = new URL(suite.databaseUrl);
  const name = url.pathname.slice(1);
  url.pathname = '/postgres';
  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  await query(client, name);
  await client.end();
}
const backup = () => admin((client, name) => client.query(`create database ${name}_backup template ${name}`));
const restore = () =>
  admin(async (client, name) => {
    await client.query(`drop database ${name} with (force)`);
    await client.query(`create database ${name} template ${name}_backup`);
  });

async function stop(audit: AuditProcess): Promise<void> {
  audit.child.kill('SIGTERM');
  expect(await audit.ended).toBe(0);
}

/** A log that was backed up with one entry and had three when its database was restored. */
async function rolledBack(): Promise<void> {
  await stop(await start());
  await backup();
  const audit = await start();
  await audit.append(received('call_a'));
  await audit.append({ entries: [note('a', 'admin.changed', 'ent_1')] });
  await stop(audit);
  expect(sizeOf(file)).toBe(3);
  await restore();
}

describe('a restored backup', () => {
  test('of everything is no roll-back', async () => {
    const audit = await start();
    await audit.append(received('call_a'));
    await stop(audit);
    await backup();
    await restore();
    const again = await start();
    expect((await suite.verified(again)).problems).toEqual([]);
  });

  test('that is older than the checkpoint outside does not start', async () => {
    await rolledBack();
    const refused = await suite.spawn({ checkpointFile: file });
    expect(await refused.ended).toBe(1);
  });

  test('starts once an operator accepts the loss of exactly that size, and the log says what was lost', async () => {
    await rolledBack();
    const word = (size: number) => JSON.stringify({ size, subject: 'ann', reason: 'disk died' });
    writeFileSync(`${file}.accept-loss`, word(2));
    expect(await (await suite.spawn({ checkpointFile: file })).ended).toBe(1);
    writeFileSync(`${file}.accept-loss`, word(3));
    const audit = await start();
    const { leaves } = await audit.exportLog();
    const last = JSON.parse(new TextDecoder().decode(leaves.at(-1)));
    expect(last).toMatchObject({ type: 'gap.found', detail: { lost_from: 1, lost_to: 3, subject: 'ann' } });
    expect(existsSync(`${file}.accept-loss`)).toBe(false);
    await expect.poll(() => sizeOf(file), { timeout: 10_000 }).toBe(2);
  });

  test('of another log with as many entries does not start, nor does a checkpoint that was edited', async () => {
    const audit = await start();
    await audit.append(received('call_a'));
    await stop(audit);
    const own = `${file}.own`;
    copyFileSync(file, own);
    writeFileSync(file, readFileSync(file, 'utf8').replace('\n2\n', '\n1\n'));
    expect(await (await suite.spawn({ checkpointFile: file })).ended).toBe(1);
    copyFileSync(own, file);
    await admin(async (client, name) => {
      await client.query(`drop database ${name} with (force)`);
      await client.query(`create database ${name}`);
    });
    const other = path.join(suite.folder, 'other');
    const another = await suite.start({ checkpointFile: other });
    await another.append(received('call_b'));
    await stop(another);
    expect(await (await suite.spawn({ checkpointFile: file })).ended).toBe(1);
  });
});
