import { setTimeout as delay } from 'node:timers/promises';
import { type AtStep, type Clock, isCallState, isTerminal } from '@countersign/kernel';
import { EnvelopeKind, type Identity, STREAMS, signEnvelope, subjects } from '@countersign/protocol';
import type { Logger, NatsConnection } from '@countersign/service-kit';
import { type JetStreamClient, jetstream } from '@nats-io/jetstream';
import type { Journal } from '../journal/journal.ts';
import type { BrokerLink } from './broker-link.ts';
import type { RunnerStep } from './runner-step.ts';

const PUBLISH_TIMEOUT_MS = 5_000;
const TICK_MS = 250;
const LAST_RETRY_MS = 60_000;
/** Repetitions under way at once; a first attempt never waits for them. */
const MAX_REPEATING = 16;

export type OutboxOptions = {
  readonly connection: NatsConnection;
  readonly link: BrokerLink;
  readonly journal: Journal;
  readonly identity: Identity;
  readonly host: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly atStep: AtStep<RunnerStep>;
};

type Pending = {
  readonly orderId: string;
  /** Outcome of an order that goes on; absent for the one in the journal. */
  readonly progress?: Uint8Array;
  attempts: number;
  dueMs: number;
  underWay: boolean;
};

const progressKey = (orderId: string): string => `${orderId} progress`;
const isEnd = (state: string): boolean => !isCallState(state) || isTerminal(state);

/**
 * Sends each journalled outcome until it is acknowledged, by the stream or by a gateway's signed `recorded`. An outcome
 * may arrive more than once, never not at all.
 */
export class OutcomeOutbox {
  private readonly options: OutboxOptions;
  private readonly client: JetStreamClient;
  private readonly pending = new Map<string, Pending>();
  private timer: NodeJS.Timeout | undefined;

  constructor(options: OutboxOptions) {
    this.options = options;
    this.client = jetstream(options.connection);
    options.link.onReconnect(() => this.hurry());
  }

  /** Begins with what an earlier process left. */
  start(): void {
    this.timer = setInterval(() => this.pump(), TICK_MS);
    for (const orderId of this.options.journal.unacknowledged()) this.add(orderId);
  }

  /** Takes over an outcome that is in the journal. One that is acknowledged already is left alone. */
  add(orderId: string): void {
    if (this.options.journal.entry(orderId)?.state !== 'finished') return;
    this.pending.delete(progressKey(orderId));
    if (!this.pending.has(orderId)) this.pending.set(orderId, { orderId, attempts: 0, dueMs: 0, underWay: false });
    this.pump();
  }

  /** Sends a report on an order that goes on, until it is acknowledged or the order has ended. */
  addProgress(orderId: string, progress: Uint8Array): void {
    if (this.options.journal.entry(orderId)?.state !== 'started') return;
    this.pending.set(progressKey(orderId), { orderId, progress, attempts: 0, dueMs: 0, underWay: false });
    this.pump();
  }

  /**
   * Notes that the control plane has the outcome. `state` is the last one that it has: a report of an order that goes on
   * never passes for its end.
   */
  async acknowledge(orderId: string, state = ''): Promise<void> {
    const { journal, clock } = this.options;
    this.pending.delete(progressKey(orderId));
    if (!isEnd(state) || !this.pending.delete(orderId)) return;
    await journal.acknowledged(orderId, clock.now());
    this.options.atStep('outcome.acknowledged');
  }

  /** Sends for at most `withinMs` more; what is left stays in the journal. */
  async stop(withinMs: number): Promise<void> {
    const until = this.options.clock.now() + withinMs;
    while (this.options.link.connected && this.pending.size > 0 && this.options.clock.now() < until) await delay(20);
    clearInterval(this.timer);
    this.pending.clear();
  }

  private hurry(): void {
    for (const item of this.pending.values()) item.dueMs = 0;
    this.pump();
  }

  private pump(): void {
    if (!this.options.link.connected || !this.timer) return;
    const nowMs = this.options.clock.now();
    let repeating = 0;
    for (const item of this.pending.values()) if (item.underWay && item.attempts > 1) repeating += 1;
    for (const item of this.pending.values()) {
      if (item.underWay || item.dueMs > nowMs) continue;
      if (item.attempts > 0) repeating += 1;
      if (item.attempts === 0 || repeating <= MAX_REPEATING) void this.send(item);
    }
  }

  private bodyOf({ orderId, progress }: Pending): Uint8Array | undefined {
    const entry = this.options.journal.entry(orderId);
    return progress ?? (entry?.state === 'finished' ? entry.outcome : undefined);
  }

  private async send(item: Pending): Promise<void> {
    const { identity, host, clock, logger } = this.options;
    const { orderId, progress } = item;
    const key = progress ? progressKey(orderId) : orderId;
    const body = this.bodyOf(item);
    if (!body) return;
    item.underWay = true;
    item.attempts += 1;
    const subject = subjects.outcome(host);
    const message = { kind: EnvelopeKind.OUTCOME, subject, body, nowMs: clock.now() };
    this.options.atStep('outcome.sending');
    try {
      const expect = { streamName: STREAMS.outcomes };
      await this.client.publish(subject, signEnvelope(identity, message), { timeout: PUBLISH_TIMEOUT_MS, expect });
      if (progress) this.pending.delete(key);
      else await this.acknowledge(orderId);
    } catch (error) {
      if (!this.pending.has(key)) return;
      logger.warn({ orderId, attempts: item.attempts, err: error }, 'outcome is not acknowledged yet');
      item.dueMs = clock.now() + Math.min(TICK_MS * 2 ** Math.min(item.attempts, 16), LAST_RETRY_MS);
    } finally {
      item.underWay = false;
    }
  }
}
