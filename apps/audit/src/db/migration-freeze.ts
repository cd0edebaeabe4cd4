/** What is frozen, and since when. A row is written when a scope is frozen and completed when it is cleared or frozen anew. */
const TABLES = `
create table audit.freeze (
  epoch bigint primary key, scope text not null, reason text not null, subject text not null, stop_running boolean not null,
  set_ms bigint not null, cleared_epoch bigint, cleared_by text, cleared_reason text, cleared_ms bigint
);
create unique index freeze_active on audit.freeze (scope) where cleared_epoch is null;
create table audit.freeze_confirmation (host text primary key, epoch bigint not null, running integer not null, confirmed_ms bigint not null);
alter table audit.freeze owner to countersign_owner;
alter table audit.freeze_confirmation owner to countersign_owner;
grant select, insert, update on audit.freeze, audit.freeze_confirmation to countersign_writer;
`;

const CHANGE = `
create function audit.change_freeze(c jsonb, at_ms bigint) returns void language plpgsql as $$
begin
  if c->>'kind' = 'confirm' then
    insert into audit.freeze_confirmation as f values (c->>'host', (c->>'epoch')::bigint, (c->>'running')::integer, at_ms)
      on conflict (host) do update set epoch = excluded.epoch, running = excluded.running, confirmed_ms = excluded.confirmed_ms
      where f.epoch < excluded.epoch;
    return;
  end if;
  update audit.freeze set cleared_epoch = (c->>'epoch')::bigint, cleared_by = c->>'subject', cleared_reason = c->>'reason', cleared_ms = at_ms
    where scope = c->>'scope' and cleared_epoch is null;
  if c->>'kind' = 'set' then
    insert into audit.freeze (epoch, scope, reason, subject, stop_running, set_ms)
      values ((c->>'epoch')::bigint, c->>'scope', c->>'reason', c->>'subject', (c->>'stopRunning')::boolean, at_ms);
  end if;
end $$;
alter function audit.change_freeze owner to countersign_owner;
revoke all on function audit.change_freeze from public;
grant execute on function audit.change_freeze to countersign_writer;
`;

/** The batch function with freeze changes in the same transaction. */
const APPEND = `
create or replace function audit.append_batch(b jsonb, leaves bytea[], hashes bytea[], drafts bytea[], records bytea[], payloads bytea[], results bytea[], new_stack bytea[])
returns void language plpgsql as $$
declare moved bigint; change jsonb; begin
  update audit.head set next_index = (b->>'next')::bigint, stack = new_stack, recorded_ms = (b->>'recorded_ms')::bigint,
      freeze_epoch = (b->>'freeze_epoch')::bigint
    where epoch = (b->>'epoch')::bigint and next_index = (b->>'first')::bigint and freeze_epoch <= (b->>'freeze_epoch')::bigint;
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
  for change in select * from jsonb_array_elements(b->'freezes') loop
    perform audit.change_freeze(change, (b->>'recorded_ms')::bigint);
  end loop;
end $$;
`;

/** Statements of the migration, in order. */
export const FREEZE_MIGRATION: readonly string[] = [TABLES, CHANGE, APPEND];
