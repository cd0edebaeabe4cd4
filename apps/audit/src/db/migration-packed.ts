/** Batches as arrays and packed bytes instead of JSON: what is written most is neither parsed nor escaped. */
const TABLES = `
drop function audit.append_batch(jsonb, bytea[], bytea[], bytea[], bytea[], bytea[], bytea[], bytea[]);
alter table audit.payload add column key_id text not null default '';
drop index audit.entry_call;
create index entry_call on audit.entry (call_id) where call_id is not null;
`;

/**
 * INVARIANT: one round trip and one commit for a batch; the fence refuses it whole when another writer came between, and every
 * statement touches exactly the rows that it names.
 */
const APPEND = `
create function audit.append_batch(
  fence jsonb, new_stack bytea[],
  ids text[], streams text[], seqs bigint[], types text[], entry_calls text[], leaves bytea, leaf_ends integer[], hashes bytea, drafts bytea,
  call_ids text[], agents text[], sessions text[], states text[], received bigint[], decisions text[], records bytea, record_ends integer[],
  payload_calls text[], payloads bytea[], results bytea[], payload_keys text[], others jsonb
) returns void language plpgsql as $$
declare
  moved bigint; change jsonb;
  first_index constant bigint := (fence->>'first')::bigint;
  at_ms constant bigint := (fence->>'recorded_ms')::bigint;
begin
  update audit.head set next_index = first_index + cardinality(ids), stack = new_stack, recorded_ms = at_ms, freeze_epoch = (fence->>'freeze_epoch')::bigint
    where epoch = (fence->>'epoch')::bigint and next_index = first_index and freeze_epoch <= (fence->>'freeze_epoch')::bigint;
  get diagnostics moved = row_count;
  if moved <> 1 then raise exception 'fence: another writer holds the log'; end if;
  insert into audit.entry
    select first_index + n - 1, s, q, t, nullif(c, ''), at_ms, substring(leaves from coalesce(leaf_ends[n - 1], 0) + 1 for e - coalesce(leaf_ends[n - 1], 0))
    from unnest(streams, seqs, types, entry_calls, leaf_ends) with ordinality as u(s, q, t, c, e, n);
  insert into audit.entry_key
    select id, first_index + n - 1, substring(hashes from (n * 32 - 31)::integer for 32), substring(drafts from (n * 32 - 31)::integer for 32), at_ms
    from unnest(ids) with ordinality as u(id, n);
  if cardinality(call_ids) > 0 then
    insert into audit.call as k
      select id, a, s, t, r, substring(records from coalesce(record_ends[n - 1], 0) + 1 for e - coalesce(record_ends[n - 1], 0)), nullif(d, '')::jsonb
      from unnest(call_ids, agents, sessions, states, received, decisions, record_ends) with ordinality as u(id, a, s, t, r, d, e, n)
      on conflict (call_id) do update set state = excluded.state, record = excluded.record, decision_entry = excluded.decision_entry
      where k.agent = excluded.agent;
    get diagnostics moved = row_count;
    if moved <> cardinality(call_ids) then raise exception 'call rows touched: %', moved; end if;
  end if;
  if cardinality(payload_calls) > 0 then
    insert into audit.payload as p (call_id, sealed_payload, sealed_result, key_id) select * from unnest(payload_calls, payloads, results, payload_keys)
      on conflict (call_id) do update set sealed_result = excluded.sealed_result;
  end if;
  if others is not null then
    insert into audit.document as d select x->>'kind', x->>'key', (x->>'version')::bigint, x->'value' from jsonb_array_elements(others->'documents') as x
      on conflict (kind, key) do update set version = excluded.version, value = excluded.value
      where d.version = (select (x->>'base')::bigint from jsonb_array_elements(others->'documents') as x where x->>'kind' = d.kind and x->>'key' = d.key);
    get diagnostics moved = row_count;
    if moved <> jsonb_array_length(others->'documents') then raise exception 'document rows touched: %', moved; end if;
    for change in select * from jsonb_array_elements(others->'freezes') loop
      perform audit.change_freeze(change, at_ms);
    end loop;
  end if;
end $$;
alter function audit.append_batch owner to countersign_owner;
revoke all on function audit.append_batch from public;
grant execute on function audit.append_batch to countersign_writer;
`;

/** Statements of the migration, in order. */
export const PACKED_MIGRATION: readonly string[] = [TABLES, APPEND];
