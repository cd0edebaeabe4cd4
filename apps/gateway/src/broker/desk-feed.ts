import { setTimeout as delay } from 'node:timers/promises';
import { EnvelopeKind, type Identity, openEnvelope, signEnvelope, subjects } from '@countersign/protocol';
import type { Logger } from '@countersign/service-kit';
import { DeliverPolicy, type JetStreamClient, type JetStreamManager, StorageType } from '@nats-io/jetstream';
import { z } from 'zod';
import { DESK_EVENTS, type DeskEvent, type EventHub, type NewEvent } from '../event-hub.ts';
import { json } from '../record/entries.ts';

const STREAM = 'DESK';
const KEPT = 10_000;
const AGE_NS = 3_600 * 1_000_000_000;
const RETRY_MS = 250;
/** Numbers of a later feed are higher than those of an earlier one: nobody emits a thousand events in each millisecond. */
const PER_MS = 1_000;

const eventSchema = z.object({
  name: z.enum(DESK_EVENTS),
  data: z.string(),
  queue: z.string(),
});

export type DeskFeedOptions = {
  readonly jetstream: JetStreamClient;
  readonly manager: JetStreamManager;
  readonly identity: Identity;
  readonly isGateway: (issuer: string) => boolean;
  readonly now: () => number;
  readonly logger: Logger;
};

async function openStream(manager: JetStreamManager): Promise<{ createdMs: number }> {
  const config = {
    name: STREAM,
    subjects: [subjects.deskFeed()],
    storage: StorageType.Memory,
    max_msgs: KEPT,
    max_age: AGE_NS,
  };
  const info = await manager.streams.info(STREAM).catch(() => manager.streams.add(config));
  return { createdMs: Date.parse(String(info.created)) };
}

function readEvent(options: DeskFeedOptions, bytes: Uint8Array): NewEvent | undefined {
  const { isGateway, now } = options;
  const expected = { kind: EnvelopeKind.GATEWAY, subject: subjects.deskFeed(), issuer: isGateway, nowMs: now() };
  const opened = openEnvelope(bytes, expected);
  if (!opened.ok) return undefined;
  const event = eventSchema.safeParse(JSON.parse(new TextDecoder().decode(opened.value.body)));
  return event.success ? event.data : undefined;
}

/** Follows the feed until it breaks. */
async function follow(options: DeskFeedOptions, hub: EventHub, started: () => void): Promise<void> {
  const { jetstream, manager } = options;
  const { createdMs } = await openStream(manager);
  const consumer = await jetstream.consumers.get(STREAM, { deliver_policy: DeliverPolicy.All });
  const messages = await consumer.consume();
  started();
  void watchStream(manager, createdMs).then(() => messages.stop());
  for await (const message of messages) {
    const event = readEvent(options, message.data);
    if (event) hub.deliver({ ...event, id: createdMs * PER_MS + message.seq } satisfies DeskEvent);
  }
}

/** Resolves when the stream is not the one that was followed any more. */
async function watchStream(manager: JetStreamManager, createdMs: number): Promise<void> {
  for (;;) {
    await delay(RETRY_MS * 4, undefined, { ref: false });
    const info = await manager.streams.info(STREAM).catch((error: Error) => (isGone(error) ? null : undefined));
    if (info === null || (info && Date.parse(String(info.created)) !== createdMs)) return;
  }
}

const isGone = (error: Error): boolean => /stream not found|closed/i.test(error.message);

/**
 * Lets every gateway's desk see the events of all: one stream in the broker's memory numbers them. When it breaks, readers are
 * told to list again. Resolves when the first following has begun.
 */
export async function startDeskFeed(options: DeskFeedOptions, hub: EventHub): Promise<{ stop: () => void }> {
  const { jetstream, identity, now, logger } = options;
  const subject = subjects.deskFeed();
  let stopped = false;
  hub.connect((event) => {
    const message = { kind: EnvelopeKind.GATEWAY, subject, body: json(event), nowMs: now() };
    jetstream.publish(subject, signEnvelope(identity, message)).catch((error: unknown) => {
      if (stopped) return;
      logger.warn({ err: error }, 'an event did not reach the desks; they are told to list again');
      hub.reset();
    });
  });
  const { promise, resolve } = Promise.withResolvers<void>();
  const loop = async () => {
    for (let first = true; !stopped; first = false) {
      if (!first) hub.reset();
      await follow(options, hub, resolve).catch((error: unknown) => {
        if (!stopped) logger.warn({ err: error }, 'the feed of events was lost; opening it again');
      });
      await delay(RETRY_MS);
    }
  };
  void loop();
  await promise;
  return {
    stop: () => {
      stopped = true;
    },
  };
}
