import { err, ok, type Result } from '@countersign/kernel';
import { AskReply, type AskRequest } from '@countersign/protocol';
import type pg from 'pg';
import type { FilterKind, Filters, Page, Question } from './question.ts';
import { QUESTIONS } from './questions.ts';

const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 1_000;
const MAX_VALUE = 256;
const ISO = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2}))?$/;

function readTime(value: string): number | undefined {
  if (/^\d{1,15}$/.test(value)) return Number(value);
  const ms = ISO.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isSafeInteger(ms) && ms >= 0 ? ms : undefined;
}

function readValue(kind: FilterKind, value: string): string | number | undefined {
  if (kind === 'time') return readTime(value);
  if (kind === 'count') return /^\d{1,9}$/.test(value) ? Number(value) : undefined;
  return value.length <= MAX_VALUE && value.isWellFormed() && !value.includes('\0') ? value : undefined;
}

function readFilters(question: Question, given: Readonly<Record<string, string>>): Result<Filters, string> {
  const filters = new Map<string, string | number>();
  for (const [name, value] of Object.entries(given)) {
    const kind = Object.hasOwn(question.filters, name) ? question.filters[name] : undefined;
    if (!kind) {
      const known = Object.keys(question.filters).join(', ');
      return err(`\`${question.name}\` has no filter \`${name.slice(0, 80)}\`; it takes: ${known || 'none'}`);
    }
    const read = readValue(kind, value);
    if (read === undefined) return err(`filter \`${name}\` is not a valid ${kind}`);
    filters.set(name, read);
  }
  const missing = question.required?.find((name) => !filters.has(name));
  return missing === undefined ? ok(filters) : err(`\`${question.name}\` needs the filter \`${missing}\``);
}

/** Numbers of the database come as text; those that fit are numbers in the answer. */
function plain(value: unknown): unknown {
  if (typeof value === 'string' && /^-?\d{1,15}$/.test(value)) return Number(value);
  return value ?? null;
}

/** Columns whose text may look like a number. */
const isText = (column: string): boolean => !/(?:_ms|_index|size|entries|missing|uses|calls|calls_with)$/.test(column);

export type AskContext = {
  readonly pool: pg.Pool;
  readonly nowMs: number;
  /** Entries that the index covers. */
  readonly entries: number;
};

async function summaryOf(question: Question, filters: Filters, page: Page, pool: pg.Pool): Promise<Uint8Array> {
  if (!question.summary || page.after !== undefined) return new Uint8Array();
  const { text, values } = question.summary(filters, page);
  const { rows } = await pool.query<Record<string, unknown>>(text, [...values]);
  const figures = Object.fromEntries(Object.entries(rows[0] ?? {}).map(([name, value]) => [name, plain(value)]));
  return new TextEncoder().encode(JSON.stringify(figures));
}

/** Answers one question, or tells what is wrong with it. Rejects when the database does. */
export async function ask(request: AskRequest, context: AskContext): Promise<Result<AskReply, string>> {
  const question = QUESTIONS.get(request.question);
  if (!question)
    return err(`no question \`${request.question.slice(0, 80)}\`; there are: ${[...QUESTIONS.keys()].join(', ')}`);
  const filters = readFilters(question, request.filters);
  if (!filters.ok) return filters;
  if (!/^\d{0,15}$/.test(request.pageToken)) return err('page token is not one of this question');
  const limit = Math.min(request.limit || DEFAULT_LIMIT, MAX_LIMIT);
  const page = { after: request.pageToken || undefined, limit, nowMs: context.nowMs };
  const { text, values } = question.rows(filters.value, page);
  const { rows } = await context.pool.query<Record<string, unknown>>(text, [...values]);
  const table = rows.map((row) =>
    question.columns.map((column) => (isText(column) ? (row[column] ?? null) : plain(row[column]))),
  );
  return ok(
    AskReply.fromPartial({
      columns: [...question.columns],
      rows: new TextEncoder().encode(JSON.stringify(table)),
      nextPageToken: rows.length === limit ? String(rows.at(-1)?.k ?? '') : '',
      entries: BigInt(context.entries),
      summary: await summaryOf(question, filters.value, page, context.pool),
    }),
  );
}
