import { connect, type NatsConnection, nkeyAuthenticator } from '@nats-io/transport-node';

export type { NatsConnection };

/** How a member connects to the broker. */
export type NatsOptions = {
  readonly url: string;
  /** NKey user seed; asked again at each reconnection where it may have changed. */
  readonly seed: string | (() => string);
  /** Shown by the broker's monitoring. */
  readonly name: string;
  /** The member's own inbox prefix, `_INBOX_<role>_<id>`; the broker permits no other. */
  readonly inboxPrefix: string;
};

/** The inbox prefix that the generated broker configuration permits to a member. */
export const inboxPrefix = (role: string, id: string): string => `_INBOX_${role}_${id}`;

/** Connects with the NKey and reconnects for ever. Rejects when the first connection is refused. */
export function connectNats(options: NatsOptions): Promise<NatsConnection> {
  const { seed } = options;
  const newest = () => new TextEncoder().encode(typeof seed === 'string' ? seed : seed());
  return connect({
    servers: options.url,
    name: options.name,
    inboxPrefix: options.inboxPrefix,
    authenticator: nkeyAuthenticator(newest),
    maxReconnectAttempts: -1,
    reconnectTimeWait: 250,
    ignoreAuthErrorAbort: true,
    pingInterval: 10_000,
  });
}
