/** Partitions have a width of their own, so that a small log can drop old entries too. */
const TABLES = (width: number): string => `
create table audit.partition (first_index bigint primary key, until_index bigint not null unique, name text not null, dropped_ms bigint);
insert into audit.partition select n * ${width}, (n + 1) * ${width}, 'entry_p' || n from (
  select substring(c.relname from 'entry_p(\\d+)$')::bigint as n from pg_inherits i join pg_class c on c.oid = i.inhrelid
  where i.inhparent = 'audit.entry'::regclass) p;
alter table audit.head add column kept_from bigint not null default 0;
create table audit.stream_end (stream text primary key, stream_seq bigint not null, leaf_hash bytea not null);
alter table audit.partition owner to countersign_owner;
alter table audit.stream_end owner to countersign_owner;
grant select on audit.partition, audit.stream_end to countersign_writer;
drop function audit.add_partition;
`;

const EXTEND = `
create function audit.extend(upto bigint, width bigint) returns bigint language plpgsql security definer set search_path = pg_catalog as $$
declare p audit.partition; last bigint; name text; begin
  if width < 256 or width % 256 <> 0 then raise exception 'the width of a partition is a multiple of 256'; end if;
  if (select next_index from audit.head) = 0 and exists (select from audit.partition where until_index - first_index <> width) then
    for p in select * from audit.partition loop execute format('drop table audit.%I', p.name); end loop;
    delete from audit.partition;
  end if;
  loop
    select coalesce(max(until_index), 0) into last from audit.partition;
    exit when last >= upto;
    name := format('entry_f%s', last);
    execute format('create table audit.%I partition of audit.entry for values from (%s) to (%s)', name, last, last + width);
    perform audit.guard(format('audit.%I', name)::regclass);
    insert into audit.partition values (last, last + width, name);
  end loop;
  return last;
end $$;
`;

/** SECURITY: says why the oldest partition must stay; null when nothing keeps it. A hold that cannot be read keeps everything. */
const KEPT = `
create function audit.partition_kept(days integer) returns text language plpgsql stable security definer set search_path = pg_catalog as $$
declare p audit.partition; at_ms bigint; held text; parts text[]; begin
  if days < 184 then return 'entries are kept at least 184 days'; end if;
  select * into p from audit.partition where dropped_ms is null order by first_index limit 1;
  if p.until_index is null or p.until_index > (select next_index from audit.head) then return 'the oldest partition is not full'; end if;
  select recorded_ms into at_ms from audit.entry where log_index = p.until_index - 1;
  if at_ms is null or at_ms > extract(epoch from clock_timestamp()) * 1000 - days * 86400000.0 then
    return format('its newest entry is younger than %s days', days); end if;
  for held in select key from audit.document where kind = 'hold' and value->>'state' is distinct from 'released' order by key loop
    parts := regexp_match(held, '^range:(\\d{1,15})-(\\d{1,15})$');
    if parts is not null then
      continue when parts[2]::bigint < p.first_index or parts[1]::bigint >= p.until_index;
    elsif held ~ '^(session|agent|principal):.' then
      parts := array[split_part(held, ':', 1), substring(held from position(':' in held) + 1)];
      continue when not exists (select from audit.fact f where f.log_index >= p.first_index and f.log_index < p.until_index
        and parts[2] = case parts[1] when 'session' then f.session_id when 'agent' then f.agent else f.principal end);
    end if;
    return format('the hold \`%s\` keeps it', held);
  end loop;
  if exists (select from audit.story where closed_index is null and received_index < p.until_index) then return 'calls of it are open'; end if;
  if coalesce((select next_index from audit.follower where name = 'facts'), 0) < p.until_index
    or (select count(*) from audit.entry_key where log_index >= p.first_index and log_index < p.until_index) <> p.until_index - p.first_index
    or (select count(*) from audit.node where level = 1 and pos >= p.first_index / 256 and pos < p.until_index / 256) <> (p.until_index - p.first_index) / 256
  then return 'the tiles do not hold its hashes'; end if;
  return null;
end $$;
`;

/** INVARIANT: what is dropped was said before, in a document that an entry commits to; leaf hashes and tree nodes stay. */
const DROP = `
create function audit.drop_partition(days integer) returns bigint language plpgsql security definer set search_path = pg_catalog as $$
declare p audit.partition; reason text; begin
  perform set_config('lock_timeout', '3000', true);
  reason := audit.partition_kept(days);
  if reason is not null then raise exception 'the partition stays: %', reason using errcode = 'CS001'; end if;
  select * into p from audit.partition where dropped_ms is null order by first_index limit 1;
  if not exists (select from audit.document where kind = 'partition' and key = p.first_index::text and value->>'state' = 'begun') then
    raise exception 'the partition stays: no entry says that it will be dropped' using errcode = 'CS001'; end if;
  with gone as (
    delete from audit.story s where s.closed_index < p.until_index
      and not exists (select from audit.entry e where e.call_id = s.call_id and e.log_index >= p.until_index) returning s.call_id
  ), payloads as (delete from audit.payload y using gone where y.call_id = gone.call_id)
  delete from audit.call c using gone where c.call_id = gone.call_id;
  insert into audit.stream_end as s select distinct on (e.stream) e.stream, e.stream_seq, k.leaf_hash
    from audit.entry e join audit.entry_key k using (log_index)
    where e.log_index < p.until_index and not exists (select from audit.entry l where l.stream = e.stream and l.log_index >= p.until_index)
    and (e.call_id is null or exists (select from audit.call c where c.call_id = e.call_id))
    order by e.stream, e.stream_seq desc
    on conflict (stream) do update set stream_seq = excluded.stream_seq, leaf_hash = excluded.leaf_hash;
  delete from audit.fact where log_index < p.until_index;
  execute format('drop table audit.%I', p.name);
  update audit.partition set dropped_ms = extract(epoch from clock_timestamp()) * 1000 where first_index = p.first_index;
  update audit.head set kept_from = p.until_index;
  return p.until_index;
end $$;
create or replace function audit.index_at(at_ms bigint) returns bigint language plpgsql stable set search_path = pg_catalog as $$
declare low bigint; high bigint; middle bigint; found bigint; begin
  select kept_from into low from audit.head;
  select next_index into high from audit.follower where name = 'facts';
  high := coalesce(high, 0);
  while low < high loop
    middle := (low + high) / 2;
    select recorded_ms into found from audit.fact where log_index = middle;
    if found < at_ms then low := middle + 1; else high := middle; end if;
  end loop;
  return low;
end $$;
alter function audit.extend owner to countersign_owner;
alter function audit.partition_kept owner to countersign_owner;
alter function audit.drop_partition owner to countersign_owner;
revoke all on function audit.extend, audit.partition_kept, audit.drop_partition from public;
grant execute on function audit.extend, audit.partition_kept, audit.drop_partition to countersign_writer;
`;

/** Statements of the migration, in order; `width` is the one of the partitions that are there. */
export const partitionsMigration = (width: number): readonly string[] => [TABLES(width), EXTEND, KEPT, DROP];
