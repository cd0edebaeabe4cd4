import { factQuestion } from './fact-question.ts';
import { INSIGHT_QUESTIONS } from './insight-questions.ts';
import { Parameters, type Question } from './question.ts';

const WHO = ['log_index', 'recorded_ms', 'type', 'call_id', 'agent', 'principal', 'host', 'tool', 'action'] as const;
const DECIDED = [...WHO, 'effect', 'decided_by', 'approver', 'policy', 'grant_id'] as const;
/** Beyond this a person has hardly read what he approved. */
const HASTY_MS = 3_000;
const SILENT_MINUTES = 10;
const MINUTE_MS = 60_000;

const FACT_QUESTIONS: readonly Question[] = [
  factQuestion({
    name: 'entries',
    about: 'any entries, by filter',
    where: 'true',
    columns: [...DECIDED, 'subject', 'state', 'what'],
  }),
  factQuestion({
    name: 'admin-acts',
    about: 'what was changed in the administration, and by whom (`subject`)',
    where: "f.type = 'admin.changed'",
    columns: ['log_index', 'recorded_ms', 'what', 'subject'],
  }),
  factQuestion({
    name: 'call',
    about: 'everything about one call, in order; `audit prove` gives it with proofs',
    required: ['call'],
    where: 'true',
    columns: [...DECIDED, 'subject', 'state', 'waited_ms'],
    isOldestFirst: true,
  }),
  factQuestion({
    name: 'approvals',
    about: 'answers of one person, with the median time to answer and the share under 3 s',
    required: ['approver'],
    where: "f.type = 'approval.answered' and f.approver is not null",
    columns: [...WHO, 'approver', 'waited_ms'],
    summary: `count(*) as answers, percentile_disc(0.5) within group (order by f.waited_ms) as median_ms,
      round(avg((f.waited_ms < ${HASTY_MS})::int), 4)::float8 as share_under_3s`,
  }),
  factQuestion({
    name: 'self-approved',
    about: 'effects whose approver is the one they were asked for',
    where: 'f.self_approved',
    columns: DECIDED,
  }),
  factQuestion({
    name: 'decisions',
    about: 'decisions under one policy',
    required: ['policy'],
    where: "f.type = 'decision' and f.policy is not null",
    columns: DECIDED,
  }),
  factQuestion({
    name: 'denied-then-allowed',
    about: 'the same tool and action of the same person allowed within 10 minutes after a denial',
    where: 'f.denied_index is not null',
    columns: [...DECIDED, 'denied_index'],
  }),
  factQuestion({
    name: 'grant-uses',
    about: 'what one grant let through',
    required: ['grant'],
    where: 'f.grant_id is not null',
    columns: DECIDED,
  }),
  factQuestion({
    name: 'interrupted',
    about: 'executions that began and whose outcome is not known',
    where: "f.type = 'exec.interrupted'",
    columns: [...WHO, 'state'],
  }),
  factQuestion({
    name: 'refused',
    about: 'what was denied, expired, refused or rejected',
    where: "(f.effect = 'deny' or f.type in ('approval.expired', 'exec.refused', 'exec.interrupted', 'call.rejected'))",
    columns: [...DECIDED, 'state'],
  }),
  factQuestion({
    name: 'argument-mismatch',
    about: 'executed arguments that are not the approved ones; there must be none',
    where: 'f.differs',
    columns: [...WHO, 'state'],
  }),
  factQuestion({
    name: 'payload-reads',
    about: 'who read which payload',
    where: "f.type = 'audit.read'",
    columns: ['log_index', 'recorded_ms', 'call_id', 'subject'],
  }),
  factQuestion({
    name: 'erasures',
    about: 'erased subjects, held ranges and dropped partitions',
    where: "f.type in ('erasure.done', 'hold.set', 'hold.released', 'retention.dropped')",
    columns: ['log_index', 'recorded_ms', 'type', 'subject', 'state'],
  }),
  factQuestion({
    name: 'clock-offsets',
    about: 'entries whose emitter was more than a second off',
    where: '(f.offset_ms > 1000 or f.offset_ms < -1000)',
    columns: [...WHO, 'offset_ms'],
  }),
];

const population: Question = {
  name: 'population',
  about: 'entries of each day and tenant against the indexes that checkpoints cover; `missing` must be 0',
  filters: { since: 'time', until: 'time' },
  columns: ['day', 'tenant', 'entries', 'first_index', 'last_index', 'missing', 'checkpoint_size'],
  rows: (filters, page) => {
    const parameters = new Parameters();
    const conditions = ['true'];
    const day = (ms: unknown) => `to_timestamp(${parameters.add(ms)}::bigint / 1000.0)::date`;
    if (filters.has('since')) conditions.push(`d.day >= ${day(filters.get('since'))}`);
    if (filters.has('until')) conditions.push(`d.day <= ${day(filters.get('until'))}`);
    if (page.after !== undefined) conditions.push(`d.day < date '1970-01-01' + ${parameters.add(page.after)}::int`);
    const text = `select to_char(day, 'YYYY-MM-DD') as day, tenant, entries, first_index, last_index, last_index - first_index + 1 - entries as missing,
      (select min(size) from audit.checkpoint where size > last_index) as checkpoint_size, day - date '1970-01-01' as k
      from (select day, tenant, sum(entries)::bigint as entries, min(first_index) as first_index, max(last_index) as last_index
      from audit.day_count d where ${conditions.join(' and ')} group by day, tenant) t order by day desc, tenant limit ${parameters.add(page.limit)}`;
    return { text, values: parameters.values };
  },
};

const openCalls: Question = {
  name: 'open-calls',
  about: 'calls without an end, oldest first',
  filters: { agent: 'text', host: 'text' },
  columns: [
    'received_index',
    'received_ms',
    'call_id',
    'agent',
    'principal',
    'host',
    'tool',
    'action',
    'effect',
    'sent_ms',
    'started_ms',
  ],
  rows: (filters, page) => {
    const parameters = new Parameters();
    const conditions = ['closed_index is null'];
    for (const name of ['agent', 'host'])
      if (filters.has(name)) conditions.push(`${name} = ${parameters.add(filters.get(name))}`);
    if (page.after !== undefined) conditions.push(`received_index > ${parameters.add(page.after)}::bigint`);
    const text = `select ${openCalls.columns.join(', ')}, received_index as k from audit.story where ${conditions.join(' and ')}
      order by received_index limit ${parameters.add(page.limit)}`;
    return { text, values: parameters.values };
  },
};

const grants: Question = {
  name: 'grants',
  about: 'grants that were alive at a time (`at`, default now), and how many decisions each had made by then',
  filters: { at: 'time' },
  columns: ['grant_id', 'created_index', 'created_ms', 'ended_ms', 'uses'],
  rows: (filters, page) => {
    const parameters = new Parameters();
    const at = parameters.add(filters.get('at') ?? page.nowMs);
    const after = page.after === undefined ? '' : `and c.log_index < ${parameters.add(page.after)}::bigint`;
    const text = `select c.grant_id, c.log_index as created_index, c.recorded_ms as created_ms,
      (select min(e.recorded_ms) from audit.fact e where e.grant_id = c.grant_id and e.type in ('grant.revoked', 'grant.expired')) as ended_ms,
      (select count(*) from audit.fact u where u.grant_id = c.grant_id and u.type in ('decision', 'grant.used') and u.recorded_ms <= ${at}::bigint) as uses, c.log_index as k
      from audit.fact c where c.type = 'grant.created' and c.grant_id is not null and c.recorded_ms <= ${at}::bigint ${after}
      and not exists (select from audit.fact e where e.grant_id = c.grant_id and e.type in ('grant.revoked', 'grant.expired') and e.recorded_ms <= ${at}::bigint)
      order by c.log_index desc limit ${parameters.add(page.limit)}`;
    return { text, values: parameters.values };
  },
};

const silentHosts: Question = {
  name: 'silent-hosts',
  about: `enrolled hosts that the record has not heard of for \`minutes\` (default ${SILENT_MINUTES}), with their open calls`,
  filters: { minutes: 'count' },
  columns: ['host', 'last_ms', 'last_index', 'entries', 'open_calls'],
  rows: (filters, page) => {
    const parameters = new Parameters();
    const before = page.nowMs - Number(filters.get('minutes') ?? SILENT_MINUTES) * MINUTE_MS;
    const limit = `${parameters.add(before)}::bigint`;
    const after = page.after === undefined ? '' : `and row_number > ${parameters.add(page.after)}::bigint`;
    const text = `select host, last_ms, last_index, entries, (select count(*) from audit.story s where s.closed_index is null and s.host = h.host) as open_calls, row_number as k
      from (select host, last_ms, last_index, entries, row_number() over (order by last_ms nulls first, host) from
        (select coalesce(d.host, s.host) as host, s.last_ms, s.last_index, s.entries from audit.host_seen s full join
          (select substr(key, 6) as host from audit.document where kind = 'member' and key like 'host:%') d on d.host = s.host) a
        where last_ms is null or last_ms < ${limit}) h
      where true ${after} order by row_number limit ${parameters.add(page.limit)}`;
    return { text, values: parameters.values };
  },
};

const policyCompare: Question = {
  name: 'policy-compare',
  about: 'what one policy decided of each tool and action, beside another (`with`)',
  filters: { policy: 'text', with: 'text' },
  required: ['policy', 'with'],
  columns: ['tool', 'action', 'effect', 'decided_by', 'calls', 'calls_with'],
  rows: (filters, page) => {
    const parameters = new Parameters();
    const [policy, other] = [parameters.add(filters.get('policy')), parameters.add(filters.get('with'))];
    const after = page.after === undefined ? '' : `where k > ${parameters.add(page.after)}::bigint`;
    const text = `select * from (select tool, action, effect, decided_by, coalesce(sum(calls) filter (where policy = ${policy}), 0)::bigint as calls,
      coalesce(sum(calls) filter (where policy = ${other}), 0)::bigint as calls_with, row_number() over (order by tool, action, effect, decided_by) as k
      from audit.policy_count where policy in (${policy}, ${other}) group by tool, action, effect, decided_by) t ${after} order by k limit ${parameters.add(page.limit)}`;
    return { text, values: parameters.values };
  },
};

/** Every question, by name. */
export const QUESTIONS: ReadonlyMap<string, Question> = new Map(
  [...FACT_QUESTIONS, population, openCalls, grants, silentHosts, policyCompare, ...INSIGHT_QUESTIONS].map(
    (question) => [question.name, question],
  ),
);
