import { type FilterKind, type Filters, type Page, Parameters, type Question, type Statement } from './question.ts';

/** Filters that every question about entries takes; each has an index or narrows the range of another. */
export const FACT_FILTERS: Readonly<Record<string, FilterKind>> = {
  since: 'time',
  until: 'time',
  call: 'text',
  type: 'text',
  agent: 'text',
  principal: 'text',
  session: 'text',
  host: 'text',
  tool: 'text',
  action: 'text',
  approver: 'text',
  effect: 'text',
  'decided-by': 'text',
  policy: 'text',
  grant: 'text',
  subject: 'text',
  state: 'text',
  what: 'text',
};

const COLUMN_OF: Readonly<Record<string, string>> = {
  call: 'call_id',
  session: 'session_id',
  'decided-by': 'decided_by',
  grant: 'grant_id',
};

/** Conditions of the filters on `audit.fact as f`. */
export function factConditions(filters: Filters, parameters: Parameters): string[] {
  return [...filters].flatMap(([name, value]) => {
    if (!Object.hasOwn(FACT_FILTERS, name)) return [];
    if (name === 'since') return [`f.log_index >= audit.index_at(${parameters.add(value)}::bigint)`];
    if (name === 'until') return [`f.log_index < audit.index_at(${parameters.add(value)}::bigint)`];
    return [`f.${COLUMN_OF[name] ?? name} = ${parameters.add(value)}`];
  });
}

type FactQuestion = Pick<Question, 'name' | 'about' | 'required'> & {
  /** What makes an entry an answer, on `audit.fact as f`. */
  readonly where: string;
  readonly columns: readonly string[];
  readonly isOldestFirst?: boolean;
  readonly summary?: string;
};

/** A question whose rows are entries, newest first unless told otherwise. */
export function factQuestion(question: FactQuestion): Question {
  const { where, columns, summary, isOldestFirst = false, ...rest } = question;
  const rows = (filters: Filters, page: Page): Statement => {
    const parameters = new Parameters();
    const conditions = [where, ...factConditions(filters, parameters)];
    if (page.after !== undefined)
      conditions.push(`f.log_index ${isOldestFirst ? '>' : '<'} ${parameters.add(page.after)}::bigint`);
    const text = `select ${columns.map((name) => `f.${name}`).join(', ')}, f.log_index as k from audit.fact f where ${conditions.join(' and ')}
      order by f.log_index ${isOldestFirst ? 'asc' : 'desc'} limit ${parameters.add(page.limit)}`;
    return { text, values: parameters.values };
  };
  const figures = (filters: Filters): Statement => {
    const parameters = new Parameters();
    const conditions = [where, ...factConditions(filters, parameters)].join(' and ');
    return { text: `select ${summary} from audit.fact f where ${conditions}`, values: parameters.values };
  };
  return { ...rest, filters: FACT_FILTERS, columns, rows, ...(summary === undefined ? {} : { summary: figures }) };
}
