/** A place outside that the log is published to. Every method rejects when the place did not take or give it; then it comes again. */
export type Place = {
  /** False: it is told of checkpoints alone. */
  readonly takesTiles: boolean;
  /**
   * Stores bytes under a name of the tlog-tiles layout. MUST never replace other bytes; the same bytes again are no error.
   * What it took is durable there.
   */
  readonly keep: (name: string, bytes: Uint8Array, signal: AbortSignal) => Promise<void>;
  /** The newest checkpoint that is there; undefined when there is none yet. */
  readonly checkpoint: (signal: AbortSignal) => Promise<string | undefined>;
  /** Puts `note` in the place of the checkpoint that `checkpoint` last gave. MUST fail when another one came between. */
  readonly replaceCheckpoint: (note: string, signal: AbortSignal) => Promise<void>;
  readonly close: () => Promise<void>;
};

/** Name of the newest checkpoint in the tlog-tiles layout. */
export const CHECKPOINT_NAME = 'checkpoint';
/** A note of sixteen signatures has less. */
export const MAX_CHECKPOINT_BYTES = 65_536;

/** Other bytes lie where these should: nothing is replaced, and somebody has to look. */
export const otherBytes = (name: string): Error =>
  new Error(`\`${name}\` is there with other bytes; nothing is replaced. Look who wrote it, or name an empty place`);
