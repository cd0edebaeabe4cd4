import type { InsightRow } from '../api/insights.ts';

/** Ends of a call, as the chart stacks them. */
export const ENDS = ['allowedByPolicy', 'allowedByPeople', 'deniedByPolicy', 'deniedByPeople', 'expired'] as const;
export type End = (typeof ENDS)[number];
export type Volume = { readonly fromMs: number } & Readonly<Record<End, number>>;

/** Rules, modes, grants and the Guardian answer without a person: the policy had them do so. */
function endOf({ effect, decided_by: by }: InsightRow): End {
  if (effect === 'expired') return 'expired';
  if (effect === 'deny') return by === 'human' ? 'deniedByPeople' : 'deniedByPolicy';
  return by === 'human' ? 'allowedByPeople' : 'allowedByPolicy';
}

/** Calls of each step by their end; steps without any are zero. */
export function volumesOf(rows: readonly InsightRow[], steps: readonly number[]): Volume[] {
  const zero = { allowedByPolicy: 0, allowedByPeople: 0, deniedByPolicy: 0, deniedByPeople: 0, expired: 0 };
  const found = new Map(steps.map((fromMs) => [fromMs, { fromMs, ...zero }]));
  for (const row of rows) {
    const volume = found.get(Number(row.from_ms));
    if (volume) volume[endOf(row)] += Number(row.calls);
  }
  return [...found.values()];
}
