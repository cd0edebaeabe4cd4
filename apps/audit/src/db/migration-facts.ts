/**
 * What a reader of the log keeps beside it: tree nodes for proofs, query columns, sums and positions. All of it can be made
 * again from the leaves; nothing of it is written by an append.
 */
const TABLES = `
create table audit.follower (name text primary key, next_index bigint not null);
create table audit.node (level smallint not null, pos bigint not null, hash bytea not null, primary key (level, pos));
create table audit.fact (
  log_index bigint primary key, recorded_ms bigint not null, offset_ms bigint not null, type text not null, call_id text, session_id text,
  agent text, principal text, host text, tool text, action text, effect text, decided_by text, approver text, policy text,
  grant_id text, subject text, state text, waited_ms bigint, denied_index bigint, self_approved boolean not null, differs boolean not null
);
create index fact_call on audit.fact (call_id, log_index) where call_id is not null;
create index fact_type on audit.fact (type, log_index);
create index fact_time on audit.fact using brin (recorded_ms);
create index fact_approver on audit.fact (approver, log_index) include (waited_ms) where approver is not null and type = 'approval.answered';
create index fact_refused on audit.fact (log_index) where effect = 'deny' or type in ('approval.expired', 'exec.refused', 'exec.interrupted', 'call.rejected');
create index fact_denied on audit.fact (principal, tool, action, log_index) where effect = 'deny' and type = 'decision';
create index fact_policy on audit.fact (policy, log_index) where policy is not null and type = 'decision';
create index fact_grant on audit.fact (grant_id, log_index) where grant_id is not null;
create index fact_subject on audit.fact (subject, log_index) where subject is not null and type = 'audit.read';
create index fact_agent on audit.fact (agent, log_index) where agent is not null;
create index fact_session on audit.fact (session_id, log_index) where session_id is not null;
create index fact_host on audit.fact (host, log_index) where host is not null;
create index fact_self on audit.fact (log_index) where self_approved;
create index fact_differs on audit.fact (log_index) where differs;
create index fact_lifted on audit.fact (log_index) where denied_index is not null;
create index fact_offset on audit.fact (log_index) where offset_ms > 1000 or offset_ms < -1000;
create table audit.story (
  call_id text primary key, received_index bigint not null, received_ms bigint not null, principal text, agent text, session_id text, host text, tool text,
  action text, args text, requested_ms bigint, effect text, sent_ms bigint, started_ms bigint, closed_index bigint, closed_state text
);
create index story_open on audit.story (received_index) where closed_index is null;
create table audit.day_count (day date not null, tenant text not null, type text not null, entries bigint not null, first_index bigint not null, last_index bigint not null, primary key (day, tenant, type));
create table audit.policy_count (policy text not null, tool text not null, action text not null, effect text not null, decided_by text not null, calls bigint not null, primary key (policy, tool, action, effect, decided_by));
create table audit.host_seen (host text primary key, first_index bigint not null, last_index bigint not null, last_ms bigint not null, entries bigint not null);
create table audit.cosignature (size bigint not null, witness text not null, line text not null, received_ms bigint not null, primary key (size, witness));
`;

const RIGHTS = `
do $$ declare item text; begin
  foreach item in array array['follower', 'node', 'fact', 'story', 'day_count', 'policy_count', 'host_seen', 'cosignature'] loop
    execute format('alter table audit.%I owner to countersign_owner', item);
    execute format('grant select, insert on audit.%I to countersign_writer', item);
  end loop;
end $$;
grant update on audit.follower, audit.fact, audit.story, audit.day_count, audit.policy_count, audit.host_seen to countersign_writer;
select audit.guard('audit.node'), audit.guard('audit.cosignature');
create function audit.index_at(at_ms bigint) returns bigint language plpgsql stable set search_path = pg_catalog as $$
declare low bigint := 0; high bigint; middle bigint; found bigint; begin
  select next_index into high from audit.follower where name = 'facts';
  high := coalesce(high, 0);
  while low < high loop
    middle := (low + high) / 2;
    select recorded_ms into found from audit.fact where log_index = middle;
    if found < at_ms then low := middle + 1; else high := middle; end if;
  end loop;
  return low;
end $$;
alter function audit.index_at owner to countersign_owner;
revoke all on function audit.index_at from public;
grant execute on function audit.index_at to countersign_writer;
`;

export const FACTS_MIGRATION: readonly string[] = [TABLES, RIGHTS];

/** Principals are asked for alone and with an effect. */
export const PRINCIPAL_MIGRATION: readonly string[] = [
  'create index fact_principal on audit.fact (principal, log_index) where principal is not null',
];

/** Kind of an administrative act; rows that are there are filled from their leaves, but for text that no column holds. */
export const WHAT_MIGRATION: readonly string[] = [
  'alter table audit.fact add column what text',
  `update audit.fact f set what = left(convert_from(e.leaf, 'UTF8')::json->'detail'->>'what', 256) from audit.entry e
    where e.log_index = f.log_index and f.type = 'admin.changed' and position(convert_to('\\u0000', 'UTF8') in e.leaf) = 0
    and json_typeof(convert_from(e.leaf, 'UTF8')::json->'detail'->'what') = 'string'`,
  "create index fact_what on audit.fact (what, log_index) where type = 'admin.changed'",
];
