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

/**
 * Waits for somebody else without taking the place of a message in work. Undefined when too many wait so already; nothing was
 * begun then.
 */
export type StepAside = <T>(wait: () => Promise<T>) => Promise<T> | undefined;

export type PullLoopOptions = {
  readonly jetstream: JetStreamClient;
  readonly stream: string;
  readonly consumer: string;
  /** Messages in work at once. */
  readonly concurrency: number;
  readonly handle: (message: JsMsg, aside: StepAside) => Promise<Handled>;
  readonly logger: Logger;
};

/**
 * Messages that wait aside at once. Three gateways full of them leave room in the shared consumer, which hands out at most
 * 1,000 unacknowledged messages.
 */
const MAX_ASIDE = 256;

/** Messages in work and those that wait aside. One that comes back is in work at once, so that it can end. */
class Places {
  readonly #limit: number;
  #inWork = 0;
  #aside = 0;
  #wake: () => void = () => undefined;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Resolves when fewer messages than the limit are in work. */
  async free(): Promise<void> {
    while (this.#inWork >= this.#limit)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
  }

  enter(): void {
    this.#inWork += 1;
  }

  leave(): void {
    this.#inWork -= 1;
    this.#wake();
  }

  readonly aside: StepAside = (wait) => {
    if (this.#aside >= MAX_ASIDE) return undefined;
    this.#aside += 1;
    this.leave();
    return wait().finally(() => {
      this.#aside -= 1;
      this.enter();
    });
  };
}

async function settle(options: PullLoopOptions, message: JsMsg, aside: StepAside): Promise<void> {
  const working = setInterval(() => message.working(), WORKING_MS);
  try {
    const handled = await options.handle(message, aside);
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
  const places = new Places(options.concurrency);
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
          places.enter();
          const work = settle(options, message, places.aside);
          running.add(work);
          void work.finally(() => {
            running.delete(work);
            places.leave();
          });
          await places.free();
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
