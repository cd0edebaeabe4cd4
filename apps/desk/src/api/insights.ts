import * as z from 'zod/mini';
import { request } from './request.ts';

/** What an answer about the record is limited to; empty texts limit nothing. */
export type InsightFilters = {
  readonly sinceMs: number;
  /** Length of one step of time, minutes. */
  readonly stepMinutes: number;
  readonly queue: string;
  readonly host: string;
  readonly agent: string;
};

/** Rows of one request, and most requests for one answer. */
const PAGE = 1_000;
const MAX_PAGES = 5;

const cell = z.union([z.string(), z.number(), z.boolean(), z.null()]);
const answerSchema = z.object({
  columns: z.array(z.string()),
  rows: z.array(z.array(cell)),
  next: z.optional(z.string()),
  summary: z.optional(z.record(z.string(), cell)),
});

export type InsightRow = Readonly<Record<string, string | number>>;
export type Insight = {
  readonly rows: readonly InsightRow[];
  /** Entries that were looked at. */
  readonly seen: number;
  /** True when the period has more entries than were looked at; the newest were. */
  readonly cut: boolean;
  readonly figures: Readonly<Record<string, unknown>>;
};
export type InsightName = 'volumes' | 'decision-times' | 'deny-reasons' | 'busiest-rules' | 'guardian-compared';

/** Answers one question about how the work of deciding goes; `docs/audit.md` lists what each answers. */
export async function fetchInsight(name: InsightName, filters: InsightFilters): Promise<Insight> {
  const { sinceMs, stepMinutes, queue, host, agent } = filters;
  const texts = Object.entries({ queue, host, agent }).filter(([, value]) => value !== '');
  const given = {
    ...Object.fromEntries(texts),
    since: String(sinceMs),
    step: String(stepMinutes),
    limit: String(PAGE),
  };
  const rows: InsightRow[] = [];
  let figures: Record<string, unknown> = {};
  let cursor = '';
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const query = new URLSearchParams(cursor === '' ? given : { ...given, cursor });
    const answer = await request(`/v1/audit/queries/${name}?${query}`, answerSchema);
    for (const cells of answer.rows)
      rows.push(Object.fromEntries(answer.columns.map((column, at) => [column, (cells[at] ?? '') as string | number])));
    figures = answer.summary ?? figures;
    cursor = answer.next ?? '';
    if (cursor === '') break;
  }
  return { rows, seen: Number(figures.seen ?? 0), cut: figures.cut === true || cursor !== '', figures };
}
