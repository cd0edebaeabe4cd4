import { isCallState, isTerminal } from '@countersign/kernel';
import type { CallRecord } from '@countersign/protocol';

/** Orders named in one beat; those that live longest go first. */
const MAX_LISTED = 10_000;

/** Orders that must not start: their call was asked to stop, has not ended, and they have not expired. */
export class Revocations {
  readonly #orders = new Map<string, { readonly orderId: string; readonly expiresMs: number }>();

  /** Takes notice of a call's newest record. */
  note(record: CallRecord): void {
    const over = isCallState(record.state) && isTerminal(record.state);
    if (record.stopRequested && record.orderHost !== '' && !over) {
      this.#orders.set(record.callId, { orderId: record.orderId, expiresMs: Number(record.orderExpiresAtMs) });
    } else this.#orders.delete(record.callId);
  }

  /** Order ids for the beat; expired ones are forgotten. */
  list(nowMs: number): string[] {
    for (const [callId, order] of this.#orders) if (order.expiresMs <= nowMs) this.#orders.delete(callId);
    return [...this.#orders.values()]
      .sort((a, b) => b.expiresMs - a.expiresMs)
      .slice(0, MAX_LISTED)
      .map((order) => order.orderId);
  }
}
