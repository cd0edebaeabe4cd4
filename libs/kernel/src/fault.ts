/** Facts that every fault carries. `code` is `countersign.<owner>.<specific>`. */
export type FaultOptions = {
  readonly code: string;
  /** True when the same request may succeed later without a change by the caller. */
  readonly retryable?: boolean;
  readonly cause?: unknown;
  /** Text that may be shown to a caller outside the process; holds no secret. */
  readonly publicMessage?: string;
};

/**
 * A fault: something that the caller could not have expected from valid input.
 * Expected failures are `Result` values instead.
 */
export class FaultError extends Error {
  readonly code: string;
  readonly retryable: boolean;
  readonly publicMessage: string;

  constructor(message: string, options: FaultOptions) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'FaultError';
    this.code = options.code;
    this.retryable = options.retryable ?? false;
    this.publicMessage = options.publicMessage ?? message;
  }
}
