import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '@countersign/kernel';
import { EnvelopeKind, type Identity, STREAMS, signEnvelope, subjects } from '@countersign/protocol';
import type { Logger, NatsConnection } from '@countersign/service-kit';
import { type JetStreamClient, jetstream } from '@nats-io/jetstream';
import type { Journal } from '../journal/journal.ts';
import type { BrokerLink } from './broker-link.ts';

const PUBLISH_TIMEOUT_MS = 5_000;
const FIRST_RETRY_MS = 250;
const LAST_RETRY_MS = 10_000;

export type OutboxOptions = {
  readonly connection: NatsConnection;
  readonly link: BrokerLink;
  readonly journal: Journal;
  readonly identity: Identity;
  readonly host: string;
  readonly clock: Clock;
  readonly logger: Logger;
};

/** Sends journalled outcomes until the stream acknowledges them. An outcome may arrive more than once, never not at all. */
export class OutcomeOutbox {
  private readonly options: OutboxOptions;
  private readonly client: JetStreamClient;
  private readonly ending = new AbortController();
  private awaken: (() => void) | undefined;
  private pass: Promise<void> = Promise.resolve();
  private retryMs = FIRST_RETRY_MS;

  constructor(options: OutboxOptions) {
    this.options = options;
    this.client = jetstream(options.connection);
    options.link.onReconnect(() => this.wake());
  }

  start(): void {
    this.pass = this.run();
  }

  /** Says that the journal has a new outcome, or that the broker is back. */
  wake(): void {
    this.retryMs = FIRST_RETRY_MS;
    this.awaken?.();
  }

  /** Sends for at most `withinMs` more, then ends; what is left stays in the journal. */
  async stop(withinMs: number): Promise<void> {
    const until = this.options.clock.now() + withinMs;
    while (this.options.link.connected && this.left() > 0 && this.options.clock.now() < until) await delay(50);
    this.ending.abort();
    this.awaken?.();
    await this.pass;
  }

  private left(): number {
    return this.options.journal.unacknowledged().length;
  }

  private async run(): Promise<void> {
    while (!this.ending.signal.aborted) {
      const allSent = this.options.link.connected ? await this.sendAll() : this.left() === 0;
      await this.sleep(allSent ? undefined : this.retryMs);
      if (!allSent) this.retryMs = Math.min(this.retryMs * 2, LAST_RETRY_MS);
    }
  }

  /** Sleeps for `ms`, or for good when nothing is left, and until `wake` at the longest. */
  private async sleep(ms: number | undefined): Promise<void> {
    if (this.ending.signal.aborted || (ms === undefined && this.left() > 0)) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.awaken = resolve;
    const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
    await promise;
    clearTimeout(timer);
    this.awaken = undefined;
  }

  private async sendAll(): Promise<boolean> {
    let allSent = true;
    for (const orderId of this.options.journal.unacknowledged()) {
      if (this.ending.signal.aborted || !this.options.link.connected) return false;
      allSent = (await this.send(orderId)) && allSent;
    }
    return allSent;
  }

  private async send(orderId: string): Promise<boolean> {
    const { journal, identity, host, clock, logger } = this.options;
    const entry = journal.entry(orderId);
    if (entry?.state !== 'finished') return true;
    const subject = subjects.outcome(host);
    const { OUTCOME: kind } = EnvelopeKind;
    try {
      const envelope = signEnvelope(identity, { kind, subject, body: entry.outcome, nowMs: clock.now() });
      const expect = { streamName: STREAMS.outcomes };
      await this.client.publish(subject, envelope, { timeout: PUBLISH_TIMEOUT_MS, expect });
      await journal.acknowledged(orderId, clock.now());
      return true;
    } catch (error) {
      logger.warn({ orderId, err: error }, 'outcome is not acknowledged yet');
      return false;
    }
  }
}
