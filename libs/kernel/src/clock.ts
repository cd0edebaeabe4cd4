/** Source of wall-clock time. Passed in, so that tests move time by hand. */
export type Clock = {
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number;
};
