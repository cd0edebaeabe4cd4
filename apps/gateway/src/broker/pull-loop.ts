import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '@countersign/service-kit';
import type { JetStreamClient, JsMsg } from '@nats-io/jetstream';

const MAX_BACKOFF_MS = 5_000;
const WORKING_MS = 10_000;
/** A message that fails this often is dropped: agents and hosts repeat theirs until they are answered. */
const MAX_DELIVERIES = 30;

/** What to do with a message after its handling. */
export type Handled = 'ack' | { readonly retryMs: number };

export type PullLoop = { readonly stop: () => Promise<void> };

export type PullLoopOptions = {
  readonly jetstream: JetStreamClient;
  readonly stream: string;
  readonly consumer: string;
  /** Messages in work at once. */
  readonly concurrency: number;
  readonly handle: (message: JsMsg) => Promise<Handled>;
  readonly logger: Logger;
};

async function settle(options: PullLoopOptions, message: JsMsg): Promise<void> {
  const working = setInterval(() => message.working(), WORKING_MS);
  try {
    const handled = await options.handle(message);
    if (handled === 'ack') message.ack();
    else message.nak(handled.retryMs);
  } catch (error) {
    const again = message.info.deliveryCount < MAX_DELIVERIES;
    const text = again
      ? 'a message could not be handled; it comes again'
      : 'a message could not be handled; given up, its sender repeats it';
    options.logger.error({ err: error, subject: message.subject }, text);
    if (again) message.nak(1_000);
    else message.ack();
  } finally {
    clearInterval(working);
  }
}

/** Consumes until stopped; a broken or silent consumer is opened again with growing waits and jitter. */
export function startPullLoop(options: PullLoopOptions): PullLoop {
  let stopping = false;
  let closeCurrent: () => void = () => undefined;
  const running = new Set<Promise<void>>();
  const loop = async () => {
    let backoff = 100;
    while (!stopping) {
      try {
        const consumer = await options.jetstream.consumers.get(options.stream, options.consumer);
        const messages = await consumer.consume({ max_messages: options.concurrency });
        closeCurrent = () => void messages.close();
        // The stop may have come while the consumer was being opened.
        if (stopping) closeCurrent();
        backoff = 100;
        for await (const message of messages) {
          const work = settle(options, message);
          running.add(work);
          void work.finally(() => running.delete(work));
          if (running.size >= options.concurrency) await Promise.race(running);
        }
      } catch (error) {
        if (!stopping)
          options.logger.warn({ err: error, consumer: options.consumer }, 'consumer was lost; opening it again');
      }
      if (!stopping) await delay(backoff * (0.5 + Math.random()));
      backoff = Math.min(backoff * 2, MAX_BACKOFF_MS);
    }
  };
  const done = loop();
  return {
    stop: async () => {
      stopping = true;
      closeCurrent();
      await done;
      await Promise.allSettled(running);
    },
  };
}
