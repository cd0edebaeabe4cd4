import { z } from 'zod';
import { type AdminChange, recordAct } from '../access/admin-log.ts';
import { RecordView, type Versioned } from '../access/record-view.ts';
import type { AuditLog } from '../record/audit-log.ts';

const REVIEW = 'review';
const HOUR_MS = 3_600_000;

const reviewSchema = z.object({
  call: z.string(),
  queue: z.string(),
  by: z.string(),
  reason: z.string(),
  due_ms: z.number(),
  reviewed_by: z.string().nullable(),
  verdict: z.enum(['justified', 'unjustified']).nullable(),
  note: z.string(),
});

/** An emergency approval that somebody else has to look at. */
export type Review = z.infer<typeof reviewSchema>;

/** Reviews of emergency approvals, kept in the record. */
export class BreakGlassReviews {
  readonly #audit: AuditLog;
  readonly #now: () => number;
  readonly #known: RecordView<Review>;

  constructor(audit: AuditLog, now: () => number) {
    this.#audit = audit;
    this.#now = now;
    this.#known = new RecordView({ audit, kind: REVIEW, schema: reviewSchema, now, maxAgeMs: 0 });
  }

  async list(): Promise<Review[]> {
    return [...(await this.#known.all()).values()].map(({ value }) => value);
  }

  /** True when a review of this queue should have been made by now. */
  async isOverdue(queue: string): Promise<boolean> {
    const nowMs = this.#now();
    return (await this.list()).some(
      (review) => review.queue === queue && review.reviewed_by === null && review.due_ms <= nowMs,
    );
  }

  /** The document that opens a review, to be written with the approval itself. */
  opened(call: { callId: string; queue: string }, by: string, reason: string, hours: number): AdminChange {
    const { callId, queue } = call;
    const due_ms = this.#now() + hours * HOUR_MS;
    const value: Review = { call: callId, queue, by, reason, due_ms, reviewed_by: null, verdict: null, note: '' };
    return { kind: REVIEW, key: callId, expectedVersion: 0n, value };
  }

  async find(callId: string): Promise<Versioned<Review> | undefined> {
    return this.#known.find(callId);
  }

  async close(known: Versioned<Review>, by: string, verdict: 'justified' | 'unjustified', note: string): Promise<void> {
    const { value, version } = known;
    const detail = { call: value.call, of: value.by, verdict, note };
    await recordAct(this.#audit, { what: 'break_glass.reviewed', by, detail }, this.#now(), [
      { kind: REVIEW, key: value.call, expectedVersion: version, value: { ...value, reviewed_by: by, verdict, note } },
    ]);
    this.#known.expire();
  }
}
