import { setTimeout as delay } from 'node:timers/promises';
import { consumers, STREAMS } from '@countersign/protocol';
import type { Logger, NatsConnection } from '@countersign/service-kit';
import { type Consumer, type JsMsg, jetstream } from '@nats-io/jetstream';
import type { BrokerLink } from './broker-link.ts';
import type { OrderRunner } from './order-runner.ts';

const PULL_MS = 2_000;
const RETRY_MS = 1_000;
/** Below the broker's default `ack_wait` of 30 s. */
const WORKING_EVERY_MS = 5_000;
const REDELIVER_MS = 2_000;
/** Orders that may wait for a slot or a beat beside those that run. */
const MAX_WAITING = 16;

export type WorkLoopOptions = {
  readonly connection: NatsConnection;
  readonly link: BrokerLink;
  readonly host: string;
  readonly runner: OrderRunner;
  readonly maxRunning: number;
  /** The journal cannot be written any more: nothing may start again in this process. */
  readonly onFault: (error: unknown) => void;
  readonly logger: Logger;
};

/** Pulls orders one at a time from this host's consumer and acknowledges each after its outcome is journalled. */
export class WorkLoop {
  private readonly options: WorkLoopOptions;
  private readonly ending = new AbortController();
  private loop: Promise<void> = Promise.resolve();

  constructor(options: WorkLoopOptions) {
    this.options = options;
  }

  start(): void {
    this.loop = this.run();
  }

  /** Resolves when no further order will be taken. */
  async stop(): Promise<void> {
    this.ending.abort();
    await this.loop;
  }

  private async run(): Promise<void> {
    let consumer: Consumer | undefined;
    while (!this.ending.signal.aborted) {
      try {
        consumer ??= await this.consumer();
        await this.pull(consumer);
      } catch (error) {
        consumer = undefined;
        this.options.logger.debug({ err: error }, 'cannot pull orders yet');
        await this.pause(RETRY_MS);
      }
    }
  }

  private consumer(): Promise<Consumer> {
    const { connection, host } = this.options;
    return jetstream(connection).consumers.get(STREAMS.work, consumers.work(host));
  }

  private async pull(consumer: Consumer): Promise<void> {
    const { link, runner, maxRunning } = this.options;
    if (!link.connected || runner.taken >= maxRunning + MAX_WAITING) return this.pause(RETRY_MS / 5);
    const messages = await consumer.fetch({ max_messages: 1, expires: PULL_MS });
    const close = () => void messages.close();
    this.ending.signal.addEventListener('abort', close);
    try {
      for await (const message of messages) {
        if (this.ending.signal.aborted) message.nak();
        else void this.take(message);
      }
    } finally {
      this.ending.signal.removeEventListener('abort', close);
    }
  }

  private async take(message: JsMsg): Promise<void> {
    const working = setInterval(() => message.working(), WORKING_EVERY_MS);
    try {
      const handling = await this.options.runner.handle(message.data, message.subject);
      if (handling === 'done') message.ack();
      else if (handling === 'discard') message.term();
      else message.nak(REDELIVER_MS);
    } catch (error) {
      this.options.onFault(error);
    } finally {
      clearInterval(working);
    }
  }

  private async pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.ending.signal }).catch(() => undefined);
  }
}
