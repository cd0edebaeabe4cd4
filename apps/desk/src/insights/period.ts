const MINUTE_MS = 60_000;

/** Periods that can be looked at: length of a step in minutes, and how many steps. */
export const PERIODS = {
  day: { stepMinutes: 60, steps: 24 },
  week: { stepMinutes: 360, steps: 28 },
  month: { stepMinutes: 1_440, steps: 30 },
  quarter: { stepMinutes: 1_440, steps: 90 },
} as const;
export type Period = keyof typeof PERIODS;

export const periodOf = (found: unknown): Period =>
  (Object.keys(PERIODS) as Period[]).find((name) => name === found) ?? 'week';

/** Beginnings of the steps of a period, oldest first; the newest step holds `nowMs`. */
export function stepsOf(period: Period, nowMs: number): number[] {
  const { stepMinutes, steps } = PERIODS[period];
  const stepMs = stepMinutes * MINUTE_MS;
  const newest = Math.floor(nowMs / stepMs) * stepMs;
  return Array.from({ length: steps }, (_, at) => newest - (steps - 1 - at) * stepMs);
}

/** The beginning of a step in words: steps of a day are days of UTC, shorter ones are told in local time. */
export function stepName(language: string, period: Period, fromMs: number): string {
  const format: Intl.DateTimeFormatOptions =
    PERIODS[period].stepMinutes >= 1_440
      ? { month: 'short', day: 'numeric', timeZone: 'UTC' }
      : { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' };
  return new Intl.DateTimeFormat(language, format).format(fromMs);
}
