import { EnvelopeKind, type Identity, openEnvelope, signEnvelope, subjects } from '@countersign/protocol';
import type { NatsConnection } from '@countersign/service-kit';
import { z } from 'zod';
import { json } from '../record/entries.ts';

const VALID_MS = 30_000;
const PING_MS = 1_000;

const noteSchema = z.object({
  topic: z.string(),
  /** Gateway that says it. */
  from: z.string(),
  facts: z.record(z.string(), z.unknown()),
});
export type GatewayNote = z.infer<typeof noteSchema>;

export type GatewayBusOptions = {
  readonly connection: NatsConnection;
  readonly identity: Identity;
  readonly isGateway: (issuer: string) => boolean;
  readonly now: () => number;
};

/**
 * What gateways tell each other: hints to look at the record again, and who is there. Nothing is decided on a note alone,
 * and a lost one only costs time.
 */
export class GatewayBus {
  readonly #options: GatewayBusOptions;
  readonly #listeners = new Map<string, ((note: GatewayNote) => void)[]>();

  constructor(options: GatewayBusOptions) {
    this.#options = options;
    options.connection.subscribe(subjects.gatewayNote(), {
      callback: (error, message) => {
        if (!error) this.#take(message.data);
      },
    });
  }

  /** True when another gateway answers. */
  async othersRun(): Promise<boolean> {
    const { connection } = this.#options;
    return connection.request(subjects.gatewayPing(), new Uint8Array(), { timeout: PING_MS }).then(
      () => true,
      () => false,
    );
  }

  /** Answers the pings of others from now on. */
  answerPings(): void {
    this.#options.connection.subscribe(subjects.gatewayPing(), {
      callback: (error, message) => {
        if (!error) message.respond();
      },
    });
  }

  /** Hears what other gateways say on a topic. */
  on(topic: string, listener: (note: GatewayNote) => void): void {
    this.#listeners.set(topic, [...(this.#listeners.get(topic) ?? []), listener]);
  }

  tell(topic: string, facts: GatewayNote['facts'] = {}): void {
    const { connection, identity, now } = this.#options;
    if (connection.isClosed()) return;
    const subject = subjects.gatewayNote();
    const body = json({ topic, from: identity.id, facts });
    connection.publish(subject, signEnvelope(identity, { kind: EnvelopeKind.GATEWAY, subject, body, nowMs: now() }));
  }

  #take(bytes: Uint8Array): void {
    const { identity, isGateway, now } = this.#options;
    const subject = subjects.gatewayNote();
    const expected = { kind: EnvelopeKind.GATEWAY, subject, issuer: isGateway, nowMs: now(), maxAgeMs: VALID_MS };
    const opened = openEnvelope(bytes, expected);
    if (!opened.ok) return;
    const note = noteSchema.safeParse(JSON.parse(new TextDecoder().decode(opened.value.body)));
    if (!note.success || note.data.from === identity.id) return;
    for (const listener of this.#listeners.get(note.data.topic) ?? []) listener(note.data);
  }
}
