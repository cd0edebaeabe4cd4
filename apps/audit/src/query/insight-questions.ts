import { type FilterKind, type Filters, Parameters, type Question, type Statement } from './question.ts';

/** Entries that one answer about counts and times looks at, newest first; `cut` tells that there were more. */
const MAX_ENTRIES = 100_000;
/** The same where whole entries are read. */
const MAX_LEAVES = 10_000;
const MINUTE_MS = 60_000;
/** A step of `volumes` and `decision-times` when none is given: a day of UTC. */
const DAY_MINUTES = 1_440;
const MAX_REASON = 300;

const FILTERS: Readonly<Record<string, FilterKind>> = {
  since: 'time',
  until: 'time',
  agent: 'text',
  host: 'text',
  queue: 'text',
  step: 'count',
};

/** An entry as JSON. Its escape of NUL, which `jsonb` does not hold, becomes the replacement character. */
const body = (alias: string): string => `replace(convert_from(${alias}.leaf, 'UTF8'), '\\u0000', '\\ufffd')::jsonb`;

const OWN_CALL = 'f.call_id';

/** Conditions on `audit.fact as f` whose call is `callId`. A call's queue stands in the entry that asked people. */
function conditionsOf(filters: Filters, parameters: Parameters, callId: string): string[] {
  const ofStory = (column: string, value: unknown) =>
    `exists (select from audit.story s where s.call_id = ${callId} and s.${column} = ${parameters.add(value)})`;
  return [...filters].flatMap(([name, value]) => {
    if (name === 'since') return [`f.log_index >= audit.index_at(${parameters.add(value)}::bigint)`];
    if (name === 'until') return [`f.log_index < audit.index_at(${parameters.add(value)}::bigint)`];
    // Entries of a call carry its agent; not all carry its host.
    if (name === 'agent' && callId === OWN_CALL) return [`f.agent = ${parameters.add(value)}`];
    if (name === 'agent' || name === 'host') return [ofStory(name, value)];
    if (name !== 'queue') return [];
    return [
      `exists (select from audit.fact r join audit.entry re on re.log_index = r.log_index where r.call_id = ${callId}
        and r.type = 'approval.requested' and ${body('re')} #>> '{detail,queue}' = ${parameters.add(value)})`,
    ];
  });
}

/** What an insight counts, on `audit.fact as f`, and how its window `w` becomes rows. */
type Insight = Pick<Question, 'name' | 'about' | 'columns'> & {
  readonly where: string;
  /** Columns of the window. */
  readonly takes: string;
  /** Reads whole entries as `e`. */
  readonly isOfLeaves?: boolean;
  /** Call of an entry, when it does not stand in `f.call_id`. */
  readonly callId?: string;
  /** From `w` to the columns, with `k` as an order. `step` is the length of a step in ms. */
  readonly rows: (step: number) => string;
  readonly figures?: string;
};

function insight({ where, takes, isOfLeaves, callId = OWN_CALL, rows, figures, ...about }: Insight): Question {
  const most = isOfLeaves ? MAX_LEAVES : MAX_ENTRIES;
  const windowOf = (filters: Filters, parameters: Parameters): string => {
    const conditions = [where, ...conditionsOf(filters, parameters, callId)].join(' and ');
    const from = isOfLeaves ? 'audit.fact f join audit.entry e on e.log_index = f.log_index' : 'audit.fact f';
    return `w as materialized (select ${takes} from ${from} where ${conditions} order by f.log_index desc limit ${most})`;
  };
  return {
    ...about,
    filters: FILTERS,
    required: ['since'],
    rows: (filters, page): Statement => {
      const parameters = new Parameters();
      const window = windowOf(filters, parameters);
      const minutes = Math.max(1, Number(filters.get('step') ?? DAY_MINUTES));
      const made = rows(minutes * MINUTE_MS);
      const after = page.after === undefined ? '' : `where k > ${parameters.add(page.after)}::bigint`;
      const text = `with ${window} select * from (${made}) t ${after} order by k limit ${parameters.add(page.limit)}`;
      return { text, values: parameters.values };
    },
    summary: (filters): Statement => {
      const parameters = new Parameters();
      const window = windowOf(filters, parameters);
      const more = figures === undefined ? '' : `, ${figures}`;
      return {
        text: `with ${window} select count(*) as seen, count(*) = ${most} as cut${more} from w`,
        values: parameters.values,
      };
    },
  };
}

const TIMES = `percentile_disc(0.5) within group (order by waited_ms) as median_ms, percentile_disc(0.95) within group (order by waited_ms) as p95_ms`;

/** Questions about how the work of deciding goes; each looks at a bounded number of the newest entries of its period. */
export const INSIGHT_QUESTIONS: readonly Question[] = [
  insight({
    name: 'volumes',
    about:
      'decisions and expiries of each step of time (`step` minutes, default a day of UTC), by effect and who decided',
    columns: ['from_ms', 'effect', 'decided_by', 'calls'],
    where: "f.type in ('decision', 'approval.expired')",
    takes: "f.recorded_ms, coalesce(f.effect, 'expired') as effect, coalesce(f.decided_by, '') as decided_by",
    rows: (
      step,
    ) => `select from_ms, effect, decided_by, calls, row_number() over (order by from_ms, effect, decided_by) as k from
      (select recorded_ms / ${step} * ${step} as from_ms, effect, decided_by, count(*) as calls from w group by 1, 2, 3) g`,
  }),
  insight({
    name: 'decision-times',
    about:
      'how long people took to answer, from the request to each answer: median and 95th percentile of each step of time',
    columns: ['from_ms', 'calls', 'median_ms', 'p95_ms'],
    where: "f.type = 'approval.answered' and f.waited_ms is not null",
    takes: 'f.recorded_ms, f.waited_ms',
    rows: (step) => `select from_ms, calls, median_ms, p95_ms, row_number() over (order by from_ms) as k from
      (select recorded_ms / ${step} * ${step} as from_ms, count(*) as calls, ${TIMES} from w group by 1) g`,
    figures: TIMES,
  }),
  insight({
    name: 'deny-reasons',
    about: `reasons of denials and how often each was given; texts are cut at ${MAX_REASON} characters`,
    columns: ['reason', 'decided_by', 'calls'],
    where: "f.type = 'decision' and f.effect = 'deny'",
    takes: `left(coalesce(${body('e')} #>> '{decision,reason}', ''), ${MAX_REASON}) as reason, coalesce(f.decided_by, '') as decided_by`,
    isOfLeaves: true,
    rows: () => `select reason, decided_by, calls, row_number() over (order by calls desc, reason, decided_by) as k from
      (select reason, decided_by, count(*) as calls from w group by 1, 2) g`,
  }),
  insight({
    name: 'busiest-rules',
    about: 'rules that decided calls or had people asked, and how often',
    columns: ['rule', 'effect', 'calls'],
    where: "f.type in ('decision', 'approval.requested')",
    takes: `coalesce(f.effect, 'ask') as effect, coalesce(${body('e')} #> '{decision,rules}', ${body('e')} #> '{detail,rules}') as rules`,
    isOfLeaves: true,
    rows: () => `select rule, effect, calls, row_number() over (order by calls desc, rule, effect) as k from
      (select left(r.rule, ${MAX_REASON}) as rule, effect, count(*) as calls from w
        cross join lateral jsonb_array_elements_text(case when jsonb_typeof(rules) = 'array' then rules else '[]'::jsonb end) as r(rule) group by 1, 2) g`,
  }),
  insight({
    name: 'guardian-compared',
    about: 'opinions of each model version beside the answers of people',
    columns: ['version', 'calls', 'agreed_calls', 'approved_but_denied_calls', 'denied_but_approved_calls'],
    where: `f.type = 'guardian.compared'`,
    takes: `left(coalesce(${body('e')} #>> '{detail,version}', ''), ${MAX_REASON}) as version, ${body('e')} #>> '{detail,opinion}' as opinion, ${body('e')} #>> '{detail,human}' as human`,
    isOfLeaves: true,
    callId: `(${body('e')} #>> '{detail,call}')`,
    rows: () => `select *, row_number() over (order by calls desc, version) as k from
      (select version, count(*) as calls,
        count(*) filter (where (opinion, human) in (('approve', 'approved'), ('deny', 'denied'))) as agreed_calls,
        count(*) filter (where opinion = 'approve' and human = 'denied') as approved_but_denied_calls,
        count(*) filter (where opinion = 'deny' and human = 'approved') as denied_but_approved_calls
        from w where opinion in ('approve', 'deny') group by 1) g`,
  }),
];
