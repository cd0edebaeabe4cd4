import { err, ok, type Result } from '@countersign/kernel';
import { parseIJson } from '@countersign/protocol';
import { z } from 'zod';
import { visibleText } from '../prompt/visible-text.ts';

/** Longest text of a model that may be a verdict. */
export const MAX_VERDICT_BYTES = 16 * 1024;

const MAX_REASON = 1_000;

const verdictSchema = z.strictObject({ decision: z.enum(['approve', 'deny']), reason: z.string() });

/** The same for providers with structured output. */
export const VERDICT_SCHEMA = {
  type: 'object',
  properties: { decision: { type: 'string', enum: ['approve', 'deny'] }, reason: { type: 'string' } },
  required: ['decision', 'reason'],
  additionalProperties: false,
};

export type Verdict = { readonly approve: boolean; readonly reason: string };

/**
 * Reads a verdict: exactly one JSON object with `decision` and a reason that can be seen, and nothing around it but blanks.
 * The error says what was wrong and repeats nothing of the text.
 */
export function parseVerdict(text: string): Result<Verdict, string> {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length > MAX_VERDICT_BYTES) return err(`verdict is longer than ${MAX_VERDICT_BYTES} bytes`);
  const json = parseIJson(bytes);
  if (!json.ok) return err('verdict is not exactly one JSON object without duplicate keys');
  const parsed = verdictSchema.safeParse(json.value);
  if (!parsed.success) return err('verdict does not hold exactly `decision` and `reason`');
  const seen = parsed.data.reason.replace(/[\s\p{Cc}\p{Default_Ignorable_Code_Point}\u2800]/gu, '');
  if (!/[\p{L}\p{N}]/u.test(seen)) return err('verdict gives no reason');
  const reason = visibleText(parsed.data.reason.trim()).replaceAll('\n', ' ');
  const bounded =
    reason.length <= MAX_REASON ? reason : `${reason.slice(0, MAX_REASON)}… (${reason.length - MAX_REASON} more)`;
  return ok({ approve: parsed.data.decision === 'approve', reason: bounded });
}
