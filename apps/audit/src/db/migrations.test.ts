import { randomUUID } from 'node:crypto';
import { usePostgres } from '@countersign/testing';
import { Kysely, PostgresDialect } from 'kysely';
import { Migrator } from 'kysely/migration';
import pg from 'pg';
import { expect, test } from 'vitest';
import { migrate } from './connection.ts';
import { MIGRATIONS } from './migrations.ts';

const postgres = usePostgres();

async function emptyDatabase(): Promise<string> {
  const name = `t_${randomUUID().replaceAll('-', '')}`;
  const admin = new pg.Client({ connectionString: postgres().url });
  await admin.connect();
  await admin.query(`create database ${name}`);
  await admin.end();
  return postgres().url.replace(/\/postgres$/, `/${name}`);
}

/** Everything that the schema says, one line each, in a fixed order. */
const DESCRIBE = `
select format('column %s.%s %s%s default %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), case when a.attnotnull then ' not null' else '' end, pg_get_expr(d.adbin, d.adrelid)) as line
  from pg_attribute a join pg_class c on c.oid = a.attrelid left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where c.relnamespace = 'audit'::regnamespace and a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'p')
union all select format('index %s', pg_get_indexdef(i.indexrelid)) from pg_index i join pg_class c on c.oid = i.indrelid where c.relnamespace = 'audit'::regnamespace
union all select format('constraint %s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) from pg_constraint where connamespace = 'audit'::regnamespace
union all select format('trigger %s %s %s', tgrelid::regclass, tgenabled, pg_get_triggerdef(oid)) from pg_trigger where tgrelid in (select oid from pg_class where relnamespace = 'audit'::regnamespace) and not tgisinternal
union all select format('function %s owner %s rights %s body %s', oid::regprocedure, pg_get_userbyid(proowner), proacl, md5(pg_get_functiondef(oid))) from pg_proc where pronamespace = 'audit'::regnamespace
union all select format('table %s owner %s rights %s', relname, pg_get_userbyid(relowner), relacl) from pg_class where relnamespace = 'audit'::regnamespace and relkind in ('r', 'p')
order by line`;

async function describeSchema(url: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ line: string }>(DESCRIBE);
  await client.end();
  return rows.map((row) => row.line);
}

test('a log of any earlier version that is in use ends with the schema of a fresh one', async () => {
  const fresh = await emptyDatabase();
  await migrate(fresh);
  const expected = await describeSchema(fresh);
  expect(expected.length).toBeGreaterThan(50);
  for (const version of Object.keys(MIGRATIONS).slice(0, -1)) {
    const url = await emptyDatabase();
    const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) }) });
    const migrator = new Migrator({ db, provider: { getMigrations: async () => ({ ...MIGRATIONS }) } });
    expect((await migrator.migrateTo(version)).error).toBeUndefined();
    await db.destroy();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query("insert into audit.document values ('session', 'ses_1', 1, '{}')");
    await client.query("insert into audit.entry values (0, 'audit', 0, 'key.added', null, 1, '\\x7b7d')");
    await client.query("insert into audit.entry_key values ('ent_1', 0, '\\x00', '\\x00', 1)");
    await client.query("insert into audit.call values ('call_1', 'a', 's', 'pending', 1, '\\x00')");
    await client.query("insert into audit.payload (call_id, sealed_payload) values ('call_1', '\\x01')");
    const hasFacts = version >= '0004' && version < '0008';
    if (hasFacts) {
      const acts = [
        '{"detail":{"what":"token.made"}}',
        String.raw`{"detail":{"what":"\u0000"}}`,
        '{"detail":{"what":1}}',
        '{}',
      ];
      for (const [at, leaf] of acts.entries()) {
        const values = [at + 1, Buffer.from(leaf)];
        await client.query("insert into audit.entry values ($1, 'admin', $1, 'admin.changed', null, 1, $2)", values);
        await client.query(
          "insert into audit.fact (log_index, recorded_ms, offset_ms, type, self_approved, differs) values ($1, 1, 0, 'admin.changed', false, false)",
          [at + 1],
        );
      }
    }
    await migrate(url);
    expect(await describeSchema(url)).toEqual(expected);
    const { rows } = await client.query<{ what: string | null }>('select what from audit.fact order by log_index');
    expect(rows.map(({ what }) => what)).toEqual(hasFacts ? ['token.made', null, null, null] : []);
    await client.end();
  }
});

test('nobody but the owner, who cannot log in, may change what the record keeps for good', async () => {
  const url = await emptyDatabase();
  await migrate(url);
  const lines = await describeSchema(url);
  const kept = lines.filter((line) => /^table (entry|entry_p0|entry_key|checkpoint) /.test(line));
  expect(
    kept.map((line) =>
      line.replace(/^table (\S+) owner (\S+) rights .*countersign_writer=([a-zA-Z]*)\/.*$/, '$1 $2 $3'),
    ),
  ).toEqual([
    'checkpoint countersign_owner ar',
    'entry countersign_owner ar',
    'entry_key countersign_owner ar',
    expect.stringMatching(/^table entry_p0 owner countersign_owner rights\s*$/),
  ]);
});
