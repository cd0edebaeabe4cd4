import { fromBase64 } from '@countersign/merkle';
import * as z from 'zod/mini';
import { request } from './request.ts';

/** Questions of the record that the desk asks; `docs/audit.md` lists what each answers. */
export const QUESTIONS = [
  'entries',
  'refused',
  'self-approved',
  'denied-then-allowed',
  'interrupted',
  'payload-reads',
  'open-calls',
  'silent-hosts',
] as const;
export type QuestionName = (typeof QUESTIONS)[number];

/** Filters by name; empty ones are left out. */
export type Filters = Readonly<Record<string, string>>;

const PAGE = '100';
const cell = z.union([z.string(), z.number(), z.boolean(), z.null()]);
const answerSchema = z.object({
  columns: z.array(z.string()),
  rows: z.array(z.array(cell)),
  /** Entries of the record that the answer is over. */
  entries: z.number(),
  next: z.optional(z.string()),
});
export type Answer = z.infer<typeof answerSchema>;

const addressOf = (question: QuestionName, filters: Filters, rest: Filters): string =>
  `/v1/audit/queries/${question}?${new URLSearchParams({ ...Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== '')), ...rest })}`;

/** One page of the answer to a question. */
export const askRecord = (question: QuestionName, filters: Filters, cursor: string): Promise<Answer> =>
  request(addressOf(question, filters, cursor === '' ? { limit: PAGE } : { limit: PAGE, cursor }), answerSchema);

/** Address of the same answer as CSV, at most 1,000 rows. */
export const csvAddress = (question: QuestionName, filters: Filters): string =>
  addressOf(question, filters, { limit: '1000', format: 'csv' });

const evidenceSchema = z.object({ entries: z.array(z.object({ index: z.number(), leaf: z.string() })) });

/** One entry of the record as it is written. */
export type Entry = { readonly index: number; readonly body: Readonly<Record<string, unknown>> };

/** Every entry of one call, in order. Rejects when one of them cannot be read. */
export async function fetchTimeline(call: string): Promise<readonly Entry[]> {
  const { entries } = await request(`/v1/audit/calls/${encodeURIComponent(call)}/evidence`, evidenceSchema);
  return entries.map(({ index, leaf }) => {
    const bytes = fromBase64(leaf);
    if (!bytes) throw new Error(`entry ${index} cannot be read`);
    return { index, body: JSON.parse(new TextDecoder().decode(bytes)) as Entry['body'] };
  });
}
