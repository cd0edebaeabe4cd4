/** A sensitive act needs a sign-in not older than this. */
const FRESH_MS = 5 * 60_000;
/** Clocks of gateway and identity provider may differ by this much. */
const AHEAD_MS = 60_000;

/** True for a sign-in of the last five minutes. SECURITY: one from the future is none; the clock was set back since. */
export const isFresh = (provenMs: number, nowMs: number): boolean =>
  nowMs - provenMs <= FRESH_MS && provenMs - nowMs <= AHEAD_MS;
