import { randomUUID } from 'node:crypto';
import type { GatewayBus } from '../broker/gateway-bus.ts';
import type { Decides, EventHub } from '../event-hub.ts';
import type { Channel } from './channel.ts';

/** Other gateways answer within this time, or nobody follows there. */
const ANSWER_MS = 500;
/** An answer holds this long, so that calls that wait by the thousand ask once. */
const KEPT_MS = 2_000;
const MAX_KEPT = 1_000;

type About = Parameters<Decides>[0];

export type ReachOptions = {
  readonly channels: readonly Channel[];
  readonly hub: EventHub;
  readonly bus: GatewayBus;
  readonly now: () => number;
};

/** Tells whether a waiting call can come to the notice of somebody who may decide on it, at whatever gateway. */
export class Reach {
  readonly #options: ReachOptions;
  readonly #kept = new Map<string, { readonly answer: Promise<boolean>; readonly untilMs: number }>();
  readonly #asked = new Map<string, () => void>();

  /** Answers the questions of other gateways from now on. */
  constructor(options: ReachOptions) {
    this.#options = options;
    const { bus, hub } = options;
    bus.on('reach.ask', ({ facts: { id, queue, principal } }) => {
      if (hub.isFollowed({ queue: String(queue), principal: String(principal) })) bus.tell('reach.answer', { id });
    });
    bus.on('reach.answer', ({ facts: { id } }) => this.#asked.get(String(id))?.());
  }

  /** True when a channel tells of the queue's calls, or somebody who may decide follows at one of the gateways. */
  async isReachable({ queue, principal }: About): Promise<boolean> {
    const { channels, hub, now } = this.#options;
    if (channels.some(({ queues }) => queues === undefined || queues.includes(queue))) return true;
    if (hub.isFollowed({ queue, principal })) return true;
    const key = JSON.stringify([queue, principal]);
    const kept = this.#kept.get(key);
    if (kept && kept.untilMs > now()) return kept.answer;
    const answer = this.#askOthers({ queue, principal });
    this.#kept.delete(key);
    this.#kept.set(key, { answer, untilMs: now() + KEPT_MS });
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > MAX_KEPT && oldest !== undefined) this.#kept.delete(oldest);
    return answer;
  }

  async #askOthers(about: About): Promise<boolean> {
    const id = randomUUID();
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => resolve(false), ANSWER_MS);
    this.#asked.set(id, () => resolve(true));
    this.#options.bus.tell('reach.ask', { id, ...about });
    return promise.finally(() => {
      clearTimeout(timer);
      this.#asked.delete(id);
    });
  }
}
