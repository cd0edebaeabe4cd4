import type { GrantBounds } from '@countersign/protocol';

/** A grant as the sequencer holds it and keeps it in the document `grant/<id>`. Times in milliseconds. */
export type GrantMemory = {
  readonly id: string;
  /** Session whose calls it may decide; empty for any. */
  readonly session: string;
  readonly state: 'live' | 'ended';
  /** 0 for no end. */
  readonly expires_ms: number;
  /** 0 for any number. */
  readonly max_uses: number;
  /** Counted only where uses are bounded. */
  readonly uses: number;
  readonly created_ms: number;
};

/** The record of a new grant. */
export const newGrant = (id: string, bounds: GrantBounds | undefined, nowMs: number): GrantMemory => ({
  id,
  session: bounds?.sessionId ?? '',
  state: 'live',
  expires_ms: Number(bounds?.expiresAtMs ?? 0n),
  max_uses: bounds?.maxUses ?? 0,
  uses: 0,
  created_ms: nowMs,
});
