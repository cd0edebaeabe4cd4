import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import { FACTS_MIGRATION, PRINCIPAL_MIGRATION, WHAT_MIGRATION } from './migration-facts.ts';
import { FREEZE_MIGRATION } from './migration-freeze.ts';
import { LEASE_MIGRATION } from './migration-lease.ts';
import { PACKED_MIGRATION } from './migration-packed.ts';
import { partitionsMigration } from './migration-partitions.ts';

/** Entries in one partition: a multiple of 256, the width of a tile. */
export const PARTITION_ENTRIES = 1_048_576;

const TABLES = `
create schema audit;
create table audit.head (
  singleton boolean primary key default true check (singleton),
  epoch bigint not null, next_index bigint not null, freeze_epoch bigint not null, stack bytea[] not null, recorded_ms bigint not null
);
insert into audit.head values (true, 0, 0, 0, '{}', 0);
create table audit.entry (
  log_index bigint primary key, stream text not null, stream_seq bigint not null, type text not null, call_id text,
  recorded_ms bigint not null, leaf bytea not null
) partition by range (log_index);
create unique index entry_stream on audit.entry (stream, stream_seq, log_index);
create index entry_call on audit.entry (call_id);
create index entry_time on audit.entry using brin (recorded_ms);
create table audit.entry_key (entry_id text primary key, log_index bigint not null unique, leaf_hash bytea not null, draft_hash bytea not null, recorded_ms bigint not null);
create table audit.call (
  call_id text primary key, agent text not null, session_id text not null, state text not null,
  received_ms bigint not null, record bytea not null, decision_entry jsonb
);
create index call_state on audit.call (state, received_ms desc, call_id desc);
create index call_session on audit.call (session_id, received_ms desc);
create table audit.payload (call_id text primary key, sealed_payload bytea not null, sealed_result bytea not null default ''::bytea);
create table audit.document (kind text not null, key text not null, version bigint not null, value jsonb not null, primary key (kind, key));
create table audit.checkpoint (size bigint primary key, note text not null);
`;

const APPEND_ONLY = `
create function audit.refuse_change() returns trigger language plpgsql as $$
begin raise exception 'audit entries are append-only'; end $$;
create function audit.guard(target regclass) returns void language plpgsql as $$
begin
  execute format('create trigger append_only before update or delete or truncate on %s for each statement execute function audit.refuse_change()', target);
  execute format('alter table %s enable always trigger append_only', target);
end $$;
select audit.guard('audit.entry'), audit.guard('audit.entry_key'), audit.guard('audit.checkpoint');
create function audit.add_partition(n bigint) returns void language plpgsql security definer set search_path = pg_catalog as $$
declare name text := format('audit.entry_p%s', n); begin
  if n < 0 then raise exception 'partition number is negative'; end if;
  if to_regclass(name) is not null then return; end if;
  execute format('create table %s partition of audit.entry for values from (%s) to (%s)', name, n * ${PARTITION_ENTRIES}, (n + 1) * ${PARTITION_ENTRIES});
  perform audit.guard(name::regclass);
end $$;
select audit.add_partition(0);
`;

/** INVARIANT: one round trip and one commit for a batch; the fence refuses it whole when another writer came between. */
const APPEND = `
create function audit.append_batch(b jsonb, leaves bytea[], hashes bytea[], drafts bytea[], records bytea[], payloads bytea[], results bytea[], new_stack bytea[])
returns void language plpgsql as $$
declare moved bigint; begin
  update audit.head set next_index = (b->>'next')::bigint, stack = new_stack, recorded_ms = (b->>'recorded_ms')::bigint
    where epoch = (b->>'epoch')::bigint and next_index = (b->>'first')::bigint;
  get diagnostics moved = row_count;
  if moved <> 1 then raise exception 'fence: another writer holds the log'; end if;
  insert into audit.entry select (e->>'i')::bigint, e->>'stream', (e->>'seq')::bigint, e->>'type', e->>'call', (e->>'ms')::bigint, leaves[n]
    from jsonb_array_elements(b->'entries') with ordinality as t(e, n);
  insert into audit.entry_key select e->>'id', (e->>'i')::bigint, hashes[n], drafts[n], (e->>'ms')::bigint
    from jsonb_array_elements(b->'entries') with ordinality as t(e, n);
  insert into audit.call as c select x->>'call', x->>'agent', x->>'session', x->>'state', (x->>'ms')::bigint, records[n], nullif(x->'decision', 'null'::jsonb)
    from jsonb_array_elements(b->'calls') with ordinality as t(x, n)
    on conflict (call_id) do update set state = excluded.state, record = excluded.record, decision_entry = excluded.decision_entry
    where c.agent = excluded.agent;
  get diagnostics moved = row_count;
  if moved <> jsonb_array_length(b->'calls') then raise exception 'call rows touched: %', moved; end if;
  insert into audit.payload as p select x->>'call', payloads[n], results[n] from jsonb_array_elements(b->'payloads') with ordinality as t(x, n)
    on conflict (call_id) do update set sealed_result = excluded.sealed_result;
  insert into audit.document as d select x->>'kind', x->>'key', (x->>'version')::bigint, x->'value' from jsonb_array_elements(b->'documents') as x
    on conflict (kind, key) do update set version = excluded.version, value = excluded.value where d.version = excluded.version - 1;
  get diagnostics moved = row_count;
  if moved <> jsonb_array_length(b->'documents') then raise exception 'document rows touched: %', moved; end if;
end $$;
`;

const ROLES = `
do $$ begin
  if not exists (select from pg_roles where rolname = 'countersign_writer') then create role countersign_writer nologin; end if;
end $$;
grant usage on schema audit to countersign_writer;
grant select, insert on audit.entry, audit.entry_key, audit.checkpoint to countersign_writer;
grant select, update on audit.head to countersign_writer;
grant select, insert, update on audit.call, audit.payload, audit.document to countersign_writer;
revoke all on all functions in schema audit from public;
grant execute on function audit.append_batch, audit.add_partition to countersign_writer;
`;

/** A document may pass through several versions in one commit; the row in the table must have the version before the first. */
const DOCUMENT_BASE = `
create or replace function audit.append_batch(b jsonb, leaves bytea[], hashes bytea[], drafts bytea[], records bytea[], payloads bytea[], results bytea[], new_stack bytea[])
returns void language plpgsql as $$
declare moved bigint; begin
  update audit.head set next_index = (b->>'next')::bigint, stack = new_stack, recorded_ms = (b->>'recorded_ms')::bigint
    where epoch = (b->>'epoch')::bigint and next_index = (b->>'first')::bigint;
  get diagnostics moved = row_count;
  if moved <> 1 then raise exception 'fence: another writer holds the log'; end if;
  insert into audit.entry select (e->>'i')::bigint, e->>'stream', (e->>'seq')::bigint, e->>'type', e->>'call', (e->>'ms')::bigint, leaves[n]
    from jsonb_array_elements(b->'entries') with ordinality as t(e, n);
  insert into audit.entry_key select e->>'id', (e->>'i')::bigint, hashes[n], drafts[n], (e->>'ms')::bigint
    from jsonb_array_elements(b->'entries') with ordinality as t(e, n);
  insert into audit.call as c select x->>'call', x->>'agent', x->>'session', x->>'state', (x->>'ms')::bigint, records[n], nullif(x->'decision', 'null'::jsonb)
    from jsonb_array_elements(b->'calls') with ordinality as t(x, n)
    on conflict (call_id) do update set state = excluded.state, record = excluded.record, decision_entry = excluded.decision_entry
    where c.agent = excluded.agent;
  get diagnostics moved = row_count;
  if moved <> jsonb_array_length(b->'calls') then raise exception 'call rows touched: %', moved; end if;
  insert into audit.payload as p select x->>'call', payloads[n], results[n] from jsonb_array_elements(b->'payloads') with ordinality as t(x, n)
    on conflict (call_id) do update set sealed_result = excluded.sealed_result;
  insert into audit.document as d select x->>'kind', x->>'key', (x->>'version')::bigint, x->'value' from jsonb_array_elements(b->'documents') as x
    on conflict (kind, key) do update set version = excluded.version, value = excluded.value where d.version = (select (x->>'base')::bigint from jsonb_array_elements(b->'documents') as x where x->>'kind' = d.kind and x->>'key' = d.key);
  get diagnostics moved = row_count;
  if moved <> jsonb_array_length(b->'documents') then raise exception 'document rows touched: %', moved; end if;
end $$;
`;

/** SECURITY: the record belongs to a role that nobody can log in as; a partition is made with its rights, not a superuser's. */
const OWNER = `
do $$ declare item record; begin
  if not exists (select from pg_roles where rolname = 'countersign_owner') then create role countersign_owner nologin; end if;
  execute format('grant countersign_owner to %I', current_user);
  alter schema audit owner to countersign_owner;
  for item in select c.oid::regclass as name from pg_class c where c.relnamespace = 'audit'::regnamespace and c.relkind in ('r', 'p') loop
    execute format('alter table %s owner to countersign_owner', item.name);
  end loop;
  for item in select p.oid::regprocedure as name from pg_proc p where p.pronamespace = 'audit'::regnamespace loop
    execute format('alter function %s owner to countersign_owner', item.name);
  end loop;
end $$;
`;

const run = (...parts: readonly string[]): Migration => ({
  up: async (db: Kysely<unknown>) => {
    for (const part of parts) await sql.raw(part).execute(db);
  },
});

/** Every migration, by name; run in order of names, each once. */
export const MIGRATIONS: Readonly<Record<string, Migration>> = {
  '0001_log': run(TABLES, APPEND_ONLY, APPEND, ROLES),
  '0002_owner': run(DOCUMENT_BASE, OWNER),
  '0003_freeze': run(...FREEZE_MIGRATION),
  '0004_facts': run(...FACTS_MIGRATION),
  '0005_packed': run(...PACKED_MIGRATION),
  '0006_lease': run(...LEASE_MIGRATION),
  '0007_fact_principal': run(...PRINCIPAL_MIGRATION),
  '0008_fact_what': run(...WHAT_MIGRATION),
  '0009_partitions': run(...partitionsMigration(PARTITION_ENTRIES)),
};
