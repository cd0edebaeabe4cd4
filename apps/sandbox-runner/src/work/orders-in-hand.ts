import { setTimeout as delay } from 'node:timers/promises';
import type { WorkOrder } from '@countersign/protocol';
import { type BeatFacts, covers } from './verify-order.ts';

/** Orders remembered as stopped before they came. */
const MAX_STOPPED = 10_000;
const EMPTY_POLL_MS = 20;

/** An order that this process has taken and not finished. */
export type InHand = {
  readonly callId: string;
  readonly sessionId: string;
  readonly order: WorkOrder;
  readonly abort: AbortController;
  /** Aborts when the order goes on in the background. */
  readonly background: AbortController;
  state: 'waiting' | 'running' | 'backgrounded';
  /** Runs a command, so that it can go on in the background. */
  isCommand: boolean;
  backgroundedAtMs?: number;
};

/** The orders of this process, and who may end them. */
export class OrdersInHand {
  private readonly holds = new Map<string, InHand>();
  private readonly stopped = new Set<string>();

  /** Takes an order; undefined when it is in hand already. */
  take(order: WorkOrder): InHand | undefined {
    const { orderId, callId, sessionId } = order;
    if (this.holds.has(orderId)) return undefined;
    const controllers = { abort: new AbortController(), background: new AbortController() };
    const hold: InHand = { callId, sessionId, order, ...controllers, state: 'waiting', isCommand: false };
    this.holds.set(orderId, hold);
    return hold;
  }

  drop(orderId: string): void {
    this.holds.delete(orderId);
  }

  count(state: InHand['state']): number {
    return [...this.holds.values()].filter((hold) => hold.state === state).length;
  }

  /** True when a stop came before the order did. */
  wasStopped(orderId: string): boolean {
    return this.stopped.has(orderId);
  }

  /** Ends a call: kills it when it runs, withdraws its order when it does not. */
  stop(orderId: string, callId: string, reason: string): void {
    const hold = this.holds.get(orderId);
    if (hold && hold.callId !== callId) return;
    hold?.abort.abort(reason || 'stopped');
    if (hold && hold.state !== 'waiting') return;
    this.stopped.add(orderId);
    const [oldest] = this.stopped;
    if (this.stopped.size > MAX_STOPPED && oldest !== undefined) this.stopped.delete(oldest);
  }

  /** Lets a running command go on in the background, while fewer than `most` do. */
  sendToBackground(orderId: string, callId: string, most: number): void {
    const hold = this.holds.get(orderId);
    if (hold?.callId !== callId || hold.state !== 'running' || !hold.isCommand) return;
    if (this.count('backgrounded') < most) hold.background.abort();
  }

  /** Withdraws an order that has not started; what runs goes on. */
  revoke(orderId: string, callId: string, reason: string): void {
    const state = this.holds.get(orderId)?.state;
    if (state === undefined || state === 'waiting') this.stop(orderId, callId, reason);
  }

  /** Stops what a beat says must not go on: revoked orders that wait, and what runs in a scope that was frozen with everything in it. */
  keepTo(beat: BeatFacts): void {
    for (const [orderId, { order, callId }] of this.holds) {
      const scope = beat.stoppedScopes.find((one) => covers(one, order));
      if (scope !== undefined) this.stop(orderId, callId, `\`${scope}\` is frozen`);
      else if (beat.revokedOrders.includes(orderId)) this.revoke(orderId, callId, 'order was revoked');
    }
  }

  /** Ends what a session has here; `all` takes the commands in the background along. */
  endSession(sessionId: string, reason: string, all: boolean): void {
    for (const hold of this.holds.values()) {
      if (hold.sessionId === sessionId && (all || hold.state !== 'backgrounded')) hold.abort.abort(reason);
    }
  }

  /** Ends everything and resolves when nothing is in hand any more. */
  async endAll(reason: string): Promise<void> {
    for (const hold of this.holds.values()) hold.abort.abort(reason);
    while (this.holds.size > 0) await delay(EMPTY_POLL_MS);
  }
}
