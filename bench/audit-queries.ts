import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import pg from 'pg';
import { migrate } from '../apps/audit/src/db/connection.ts';
import { ask } from '../apps/audit/src/query/ask.ts';
import { QUESTIONS } from '../apps/audit/src/query/questions.ts';
import { AskRequest } from '../libs/protocol/src/index.ts';
import { startPostgres } from '../libs/service-kit/src/embedded/index.ts';

/**
 * Every question of an auditor on a log of many entries: a real PostgreSQL, rows made with SQL, indexes made after.
 * `node bench/audit-queries.ts [entries] [folder]`; the goal is under a second each on ten million.
 */
const [entries = 10_000_000, folder = '/var/lib'] = [Number(process.argv[2] ?? 10_000_000), process.argv[3]];
const ROUNDS = 5;
const START_MS = 1_700_000_000_000;
/** An entry every 260 ms: ten million are a month. */
const STEP_MS = 260;

const FACTS = `insert into audit.fact select i, ${START_MS} + i * ${STEP_MS}, case when i % 50021 = 0 then 1500 else i % 7 end,
  (array['call.received','approval.requested','approval.answered','decision','dispatch.sent','exec.started','exec.finished','call.closed'])[1 + i % 8],
  'call_' || (i / 8), 'ses_' || (i / 800), 'agent-' || (i / 8 % 500), 'person-' || (i / 8 % 300), 'host-' || (i / 8 % 200),
  (array['bash','write','edit','fetch'])[1 + (i / 8) % 4], 'action-' || (i / 8 % 40),
  case when i % 8 = 3 then case when (i / 8) % 10 = 0 then 'deny' else 'allow' end end, case when i % 8 = 3 then 'human' end,
  case when i % 8 in (2, 3) then 'approver-' || (i / 8 % 30) end, case when i % 8 = 3 then 'policy-' || (i / 2000000) end,
  case when i % 8 = 3 and (i / 8) % 20 = 0 then 'grant-' || (i / 8 % 5000) end, null, case when i % 8 = 7 then 'done' end,
  case when i % 8 = 2 then (i * 7919) % 600000 end, case when i % 8 = 3 and (i / 8) % 997 = 1 then i - 800 end,
  i % 8 = 3 and (i / 8) % 4999 = 0, i = 4000006
  from generate_series($1::bigint, $2::bigint - 1) i`;
const RARE = `insert into audit.fact (log_index, recorded_ms, offset_ms, type, call_id, grant_id, subject, self_approved, differs)
  select $1::bigint + i, ${START_MS} + ($1::bigint + i) * ${STEP_MS}, 0, (array['audit.read','hold.set','erasure.done','exec.interrupted','grant.created','grant.revoked'])[1 + i % 6],
  'call_' || i, case when i % 6 in (4, 5) then 'grant-' || (i / 6 % 5000) end, 'auditor-' || (i % 9), false, false from generate_series(0, 29999) i`;
const STORIES = `insert into audit.story select 'call_' || i, i * 8, ${START_MS} + i * 8 * ${STEP_MS}, 'person-' || (i % 300), 'agent-' || (i % 500), 'ses_' || (i / 100), 'host-' || (i % 200),
  'bash', 'action-' || (i % 40), 'aa', null, 'allow', null, null, case when i % 3001 = 0 then null else i * 8 + 7 end, 'done' from generate_series(0, $1::bigint / 8 - 1) i`;
const SUMS = `
insert into audit.day_count select to_timestamp(recorded_ms / 1000)::date, 'org', type, count(*), min(log_index), max(log_index) from audit.fact group by 1, 3;
insert into audit.policy_count select policy, tool, action, effect, decided_by, count(*) from audit.fact where type = 'decision' and policy is not null group by 1, 2, 3, 4, 5;
insert into audit.host_seen select host, min(log_index), max(log_index), max(recorded_ms), count(*) from audit.fact where host is not null group by 1;
insert into audit.follower select 'facts', max(log_index) + 1 from audit.fact;`;

const FILTERS: Readonly<Record<string, Readonly<Record<string, string>>[]>> = {
  call: [{ call: 'call_600000' }],
  approvals: [
    { approver: 'approver-7' },
    { approver: 'approver-7', since: String(START_MS), until: String(START_MS + 86_400_000) },
  ],
  decisions: [{ policy: 'policy-1' }, { policy: 'policy-1', agent: 'agent-3' }],
  'policy-compare': [{ policy: 'policy-1', with: 'policy-2' }],
  'grant-uses': [{ grant: 'grant-60' }],
  'payload-reads': [{}, { subject: 'auditor-3' }],
  entries: [
    {},
    { agent: 'agent-99' },
    { host: 'host-7', type: 'exec.finished' },
    { session: 'ses_400' },
    { principal: 'person-9', effect: 'deny' },
    { since: String(START_MS + 86_400_000), until: String(START_MS + 90_000_000) },
    { agent: 'nobody' },
  ],
  refused: [{}, { agent: 'agent-10' }],
  volumes: [{ since: '1' }, { since: '1', agent: 'agent-99' }, { since: '1', host: 'host-7' }],
  'decision-times': [{ since: '1' }, { since: '1', host: 'host-7' }],
  // Whole entries are not part of this log.
  'deny-reasons': [{ since: '1' }],
  'busiest-rules': [{ since: '1' }],
  'guardian-compared': [{ since: '1' }],
  grants: [{}, { at: String(START_MS + entries * STEP_MS) }],
};

const root = mkdtempSync(path.join(folder ?? '/var/lib', 'countersign-bench-queries-'));
const server = await startPostgres({
  dataDir: root,
  settings: {
    fsync: 'off',
    full_page_writes: 'off',
    max_wal_size: '8GB',
    maintenance_work_mem: '512MB',
    shared_buffers: '1GB',
  },
});
const say = (line: string) => process.stdout.write(`${line}\n`);
try {
  await migrate(server.url);
  const pool = new pg.Pool({ connectionString: server.url, max: 2 });
  pool.on('error', () => undefined);
  const timed = async (name: string, work: () => Promise<unknown>) => {
    const before = performance.now();
    await work();
    say(`${name}: ${((performance.now() - before) / 1_000).toFixed(1)} s`);
  };
  const { rows: indexes } = await pool.query<{ name: string; def: string }>(
    "select indexrelid::regclass as name, pg_get_indexdef(indexrelid) as def from pg_index where indrelid = 'audit.fact'::regclass",
  );
  await pool.query('alter table audit.fact drop constraint fact_pkey');
  for (const { name } of indexes) await pool.query(`drop index if exists ${name}`);
  await timed(`${entries} entries`, async () => {
    for (let from = 0; from < entries; from += 1_000_000)
      await pool.query(FACTS, [from, Math.min(entries, from + 1_000_000)]);
  });
  await pool.query(RARE, [entries]);
  await timed('stories', () => pool.query(STORIES, [entries]));
  await timed(`${indexes.length} indexes`, async () => {
    for (const { def } of indexes) await pool.query(def);
  });
  await timed('sums', () => pool.query(SUMS));
  await timed('vacuum analyze', () => pool.query('vacuum analyze audit.fact, audit.story'));
  const { rows: sizes } = await pool.query<{ heap: string; all: string }>(
    "select pg_size_pretty(pg_relation_size('audit.fact')) as heap, pg_size_pretty(pg_total_relation_size('audit.fact')) as all",
  );
  say(`audit.fact: ${sizes[0]?.heap}, with indexes ${sizes[0]?.all}`);
  let slowest = 0;
  for (const name of QUESTIONS.keys())
    for (const filters of FILTERS[name] ?? [{}]) {
      const times: number[] = [];
      let rows = 0;
      for (let round = 0; round < ROUNDS; round += 1) {
        const before = performance.now();
        const request = AskRequest.fromPartial({ question: name, filters: { ...filters }, limit: 100 });
        const answer = await ask(request, { pool, nowMs: START_MS + entries * STEP_MS, entries });
        times.push(performance.now() - before);
        if (!answer.ok) throw new Error(answer.error);
        rows = (JSON.parse(Buffer.from(answer.value.rows).toString()) as unknown[]).length;
      }
      const sorted = times.toSorted((a, b) => a - b);
      slowest = Math.max(slowest, sorted[2] ?? 0);
      say(
        `${name.padEnd(20)} ${JSON.stringify(filters).slice(0, 70).padEnd(70)} ${String(rows).padStart(4)} rows, first ${times[0]?.toFixed(0)} ms, median ${sorted[2]?.toFixed(0)} ms`,
      );
    }
  say(`slowest median: ${slowest.toFixed(0)} ms`);
  await pool.end();
} finally {
  await server.stop();
  rmSync(root, { recursive: true, force: true });
}
