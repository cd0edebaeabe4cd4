import type { Result } from '@countersign/kernel';
import type { Prompt } from '../prompt/prompt.ts';

/** Why there is no verdict. None of these says anything about the call. */
export type FaultCategory = 'timed_out' | 'unavailable' | 'malformed' | 'misconfigured';

/** A failed exchange. `reason` holds nothing of the endpoint's answer and no key. */
export type ProviderFault = {
  readonly category: FaultCategory;
  readonly reason: string;
  /** True for transport faults: the same request may be sent again. */
  readonly transport: boolean;
  /** Time the endpoint asked for before the next request. */
  readonly retryAfterMs?: number;
};

/** The whole text of one complete answer. */
export type Completion = {
  readonly text: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
};

/** One configured endpoint. */
export type Provider = {
  readonly name: string;
  /** Why reviews by `model` cannot be had here; undefined when they can. */
  readonly problem: (model: string) => string | undefined;
  /** One request without streaming and without retries; never rejects. Ends when `signal` aborts. */
  readonly complete: (model: string, prompt: Prompt, signal: AbortSignal) => Promise<Result<Completion, ProviderFault>>;
};

export const malformed = (reason: string): ProviderFault => ({ category: 'malformed', reason, transport: false });

export const misconfigured = (reason: string): ProviderFault => ({
  category: 'misconfigured',
  reason,
  transport: false,
});
