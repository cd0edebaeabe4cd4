import { randomBytes } from 'node:crypto';
import { consumers, STREAMS, subjects } from '@countersign/protocol';
import type { Logger } from '@countersign/service-kit';
import type { JetStreamClient, JetStreamManager, JsMsg } from '@nats-io/jetstream';
import { headers } from '@nats-io/transport-node';
import { startPullLoop } from '../broker/pull-loop.ts';
import type { Channel } from './channel.ts';
import { type ChannelSender, channelSender } from './channel-sender.ts';
import { type Notice, noticeSchema } from './notice.ts';
import { ensureNoticeStreams } from './notice-streams.ts';

const AT_ONCE = 4;
/** Sequence numbers of given-up notices that one listing looks at. */
const MAX_SCAN = 5_000;
/** Waits after each failed attempt; about nine hours in all, then the notice is given up. */
const BACKOFF_MS = [5_000, 30_000, 120_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 18_000_000] as const;

export type NotifierOptions = {
  readonly channels: readonly Channel[];
  readonly jetstream: JetStreamClient;
  readonly manager: JetStreamManager;
  readonly now: () => number;
  readonly logger: Logger;
  /** Waits after each failed attempt. */
  readonly backoffMs?: readonly number[];
};

/** Why a notice was given up; kept as headers of its message. */
const DEAD_HEADER = 'Countersign-Why';

/**
 * Tells people outside the desk. A notice is durable before any attempt, sent by one gateway at a time, repeated with growing
 * waits, and kept as given up afterwards. Each channel has a consumer of its own, so that a slow one delays no other.
 */
export class Notifier {
  readonly #options: NotifierOptions;
  readonly #senders: ReadonlyMap<string, ChannelSender>;
  #loops: readonly { stop: () => Promise<void> }[] = [];

  /** Throws when the secret of a channel cannot be read. */
  constructor(options: NotifierOptions) {
    this.#options = options;
    this.#senders = new Map(options.channels.map((channel) => [channel.id, channelSender(channel)]));
  }

  /** Ids and kinds of the channels. */
  get channels(): readonly { id: string; kind: string }[] {
    return this.#options.channels.map(({ id, kind }) => ({ id, kind }));
  }

  async start(): Promise<void> {
    const { channels, jetstream, manager, logger } = this.#options;
    await ensureNoticeStreams(
      manager,
      channels.map(({ id }) => id),
    );
    this.#loops = channels.map(({ id }) =>
      startPullLoop({
        jetstream,
        stream: STREAMS.notices,
        consumer: consumers.notices(id),
        concurrency: AT_ONCE,
        logger,
        handle: (message) => this.#attempt(id, message),
      }),
    );
  }

  async stop(): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.stop()));
  }

  /**
   * Queues a notice for every channel of `queue`; the same notice within a day counts once. Never rejects: the call waits at
   * the desk whether or not a channel could be told.
   */
  async tell(queue: string, notice: Notice): Promise<void> {
    const wanted = this.#options.channels.filter(({ queues }) => queues === undefined || queues.includes(queue));
    await Promise.all(wanted.map(({ id }) => this.#enqueue(id, notice, notice.id)));
  }

  /** Queues a test notice for one channel; false when there is no such channel. */
  async test(channel: string, notice: Notice): Promise<boolean> {
    if (!this.#senders.has(channel)) return false;
    return this.#enqueue(channel, notice, notice.id);
  }

  /** Notices that were given up, oldest first, at most `limit`. */
  async dead(limit: number): Promise<readonly { seq: number; channel: string; why: string; notice: Notice }[]> {
    const { manager } = this.#options;
    const { state } = await manager.streams.info(STREAMS.deadNotices);
    const found: { seq: number; channel: string; why: string; notice: Notice }[] = [];
    const last = Math.min(state.last_seq, state.first_seq + MAX_SCAN);
    for (let seq = state.first_seq; seq <= last && found.length < limit; seq += 1) {
      const message = await manager.streams.getMessage(STREAMS.deadNotices, { seq }).catch(() => null);
      const notice = message && noticeSchema.safeParse(message.json());
      if (!message || !notice?.success) continue;
      const channel = message.subject.split('.').at(-1) ?? '';
      found.push({ seq, channel, why: message.header?.get(DEAD_HEADER) ?? '', notice: notice.data });
    }
    return found;
  }

  /** Queues a given-up notice again and removes it from that list; false when there is none. */
  async replay(seq: number): Promise<boolean> {
    const { manager } = this.#options;
    const message = await manager.streams.getMessage(STREAMS.deadNotices, { seq }).catch(() => null);
    const notice = message && noticeSchema.safeParse(message.json());
    if (!message || !notice?.success) return false;
    const channel = message.subject.split('.').at(-1) ?? '';
    if (!this.#senders.has(channel)) return false;
    if (!(await this.#enqueue(channel, notice.data, `${notice.data.id}.replay.${seq}`))) return false;
    await manager.streams.deleteMessage(STREAMS.deadNotices, seq);
    return true;
  }

  async #enqueue(channel: string, notice: Notice, messageId: string): Promise<boolean> {
    const { jetstream, logger } = this.#options;
    return jetstream
      .publish(subjects.notice(channel), JSON.stringify(notice), { msgID: `${messageId}.${channel}` })
      .then(
        () => true,
        (error: unknown) => {
          logger.warn({ err: error, channel }, 'a notice could not be queued');
          return false;
        },
      );
  }

  async #attempt(channel: string, message: JsMsg): Promise<'ack' | { retryMs: number }> {
    const { now, logger, backoffMs = BACKOFF_MS } = this.#options;
    const sender = this.#senders.get(channel);
    const notice = noticeSchema.safeParse(message.json());
    if (!sender || !notice.success) return 'ack';
    const delivery = await sender(notice.data, now());
    if (delivery.kind === 'delivered') return 'ack';
    const waitMs = backoffMs[message.info.deliveryCount - 1];
    const { why } = delivery;
    if (delivery.kind === 'retry' && waitMs !== undefined) {
      logger.warn({ channel, why, attempt: message.info.deliveryCount }, 'a notice was not delivered; it goes again');
      return { retryMs: Math.max(waitMs, delivery.afterMs) };
    }
    logger.error({ channel, why }, 'a notice was given up; replay it when the channel works');
    await this.#bury(channel, notice.data, why);
    return 'ack';
  }

  async #bury(channel: string, notice: Notice, why: string): Promise<void> {
    const about = headers();
    about.set(DEAD_HEADER, why);
    await this.#options.jetstream.publish(subjects.deadNotice(channel), JSON.stringify(notice), { headers: about });
  }
}

/** Id of a test notice. */
export const testNoticeId = (): string => `test_${randomBytes(8).toString('hex')}`;
