import type { EntryDraft } from '@countersign/protocol';

const encoder = new TextEncoder();

/** JSON bytes. */
export const json = (value: unknown): Uint8Array => encoder.encode(JSON.stringify(value));

export type EntryFacts = {
  readonly callId: string;
  readonly type: string;
  /** Distinguishes repetitions; a replay with the same one finds its first receipt. */
  readonly attempt?: string;
  readonly toState?: string;
  readonly nowMs: number;
  readonly body?: object;
};

/** One entry of a call's stream, with its deterministic id. */
export const callEntry = (facts: EntryFacts): EntryDraft => ({
  id: `ent_${facts.callId}_${facts.type}_${facts.attempt ?? '1'}`,
  type: facts.type,
  stream: facts.callId,
  emittedMs: BigInt(facts.nowMs),
  callId: facts.callId,
  body: json(facts.body ?? {}),
  toState: facts.toState ?? '',
});
