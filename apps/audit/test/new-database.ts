import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { migrate } from '../src/db/connection.ts';

/** Settings of a server whose machine does not lose power: a killed process loses nothing without them. */
export const QUICK = { fsync: 'off', full_page_writes: 'off' };

/** A migrated database of its own on a server. Returns its URL. */
export async function newDatabase(serverUrl: string): Promise<string> {
  const name = `t_${randomUUID().replaceAll('-', '')}`;
  const admin = new pg.Client({ connectionString: serverUrl });
  await admin.connect();
  await admin.query(`create database ${name}`);
  await admin.end();
  const url = serverUrl.replace(/\/postgres$/, `/${name}`);
  await migrate(url);
  return url;
}

/** Empties a log between two tests, with the triggers off for as long as it takes. */
export async function emptyDatabase(owner: pg.Client): Promise<void> {
  await owner.query(`
    do $$ declare guarded record; begin
      for guarded in select tgrelid::regclass as name from pg_trigger where tgname = 'append_only' and tgparentid = 0 loop
        execute format('alter table %s disable trigger append_only', guarded.name);
      end loop;
      truncate audit.entry, audit.entry_key, audit.checkpoint, audit.call, audit.payload, audit.document, audit.freeze, audit.freeze_confirmation;
      for guarded in select tgrelid::regclass as name from pg_trigger where tgname = 'append_only' and tgparentid = 0 loop
        execute format('alter table %s enable always trigger append_only', guarded.name);
      end loop;
      update audit.head set epoch = 0, next_index = 0, freeze_epoch = 0, stack = '{}', recorded_ms = 0;
    end $$`);
}
