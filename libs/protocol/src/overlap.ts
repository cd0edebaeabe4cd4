import { z } from 'zod';

const MINUTE_MS = 60_000;
/** A replaced key counts for at most a week. */
export const MAX_OVERLAP_MINUTES = 10_080;

/** How long a replaced key still counts, in minutes. */
export const overlapSchema = z.int().min(1).max(MAX_OVERLAP_MINUTES);

type Line = { readonly untilMs?: number | undefined };
type DraftLine = Line & { readonly overlapMinutes?: number | undefined };

/**
 * Lines of a draft as they are signed at `nowMs`. INVARIANT: an overlap begins when the root signs, however long the draft lay
 * there; what has an end already keeps it.
 */
export const withEnds = <T extends DraftLine>(lines: readonly T[], nowMs: number): Omit<T, 'overlapMinutes'>[] =>
  lines.map(({ overlapMinutes, ...line }) =>
    overlapMinutes === undefined || line.untilMs !== undefined
      ? line
      : { ...line, untilMs: nowMs + overlapMinutes * MINUTE_MS },
  );

/**
 * Why the ends that a newly published list gives its keys cannot be meant; undefined when they can.
 * @param before ends of the list in force, by key
 */
export function endsProblem(
  before: ReadonlyMap<string, number | undefined>,
  after: readonly (Line & { readonly key: string })[],
  nowMs: number,
): string | undefined {
  for (const { key, untilMs } of after) {
    if (untilMs === undefined || !before.has(key) || before.get(key) === untilMs) continue;
    if (untilMs <= nowMs) return `the overlap of \`${key}\` ended before this was published; sign the draft again`;
    if (untilMs > nowMs + (MAX_OVERLAP_MINUTES + 1) * MINUTE_MS)
      return `the overlap of \`${key}\` is longer than a week; sign the draft again where the clock is right`;
  }
  return undefined;
}
