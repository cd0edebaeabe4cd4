import { z } from 'zod';

const id = z.string().min(1).max(64);
const time = z.int().min(0);
const hex = z.string().regex(/^[0-9a-f]{64}$/);

/** One line of the journal file. The first line of a file is `journal`. */
export const journalLineSchema = z.discriminatedUnion('type', [
  /** `before`: lines that were written and are gone from the file. */
  z.strictObject({ type: z.literal('journal'), id, created_at_ms: time, before: z.int().min(0).default(0) }),
  z.strictObject({
    type: z.literal('started'),
    order_id: id,
    call_id: id,
    call_digest: hex,
    at_ms: time,
    expires_at_ms: time,
  }),
  z.strictObject({ type: z.literal('backgrounded'), order_id: id, at_ms: time }),
  z.strictObject({
    type: z.literal('finished'),
    order_id: id,
    /** Exact bytes of the Outcome, base64. The result in it is sealed. */
    outcome: z.string(),
    at_ms: time,
    expires_at_ms: time,
  }),
  z.strictObject({ type: z.literal('acknowledged'), order_id: id, at_ms: time, expires_at_ms: time }),
]);

export type JournalLine = z.infer<typeof journalLineSchema>;

export type StartedLine = Extract<JournalLine, { type: 'started' }>;

/** Parses one line; undefined when it is not a line of a journal. */
export function parseJournalLine(text: string): JournalLine | undefined {
  try {
    const parsed = journalLineSchema.safeParse(JSON.parse(text));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}
