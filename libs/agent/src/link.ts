import {
  CallEvent,
  EnvelopeKind,
  type Identity,
  type KnownRoster,
  openEnvelope,
  type Receipt,
  signEnvelope,
  subjects,
  verifyReceipt,
} from '@countersign/protocol';
import type { Msg, NatsConnection } from '@nats-io/transport-node';

/** Somebody who waits for verified events. */
export type Follower = {
  readonly matches: (event: CallEvent) => boolean;
  readonly onEvent: (event: CallEvent) => void;
  readonly onClosed: (error: Error) => void;
};

/** An agent's signed line to the control plane. */
export type Link = {
  readonly identity: Identity;
  readonly controlSealKey: string;
  readonly callSubject: string;
  readonly cancelSubject: string;
  /** True when the audit service of the roster signed the receipt. */
  readonly isProof: (receipt: Receipt) => boolean;
  /** `sequence` must rise for kinds of short validity. */
  readonly sign: (kind: EnvelopeKind, subject: string, body: Uint8Array, sequence?: bigint) => Uint8Array;
  readonly publish: (subject: string, message: Uint8Array) => void;
  /** Returns the function that ends the following. */
  readonly follow: (follower: Follower) => () => void;
};

/**
 * Verifies one delivered event. SECURITY: only a gateway key of the roster, signed for the subject that delivered it.
 * Undefined for anything else.
 */
function verifiedEvent(message: Msg, roster: KnownRoster): CallEvent | undefined {
  const isGateway = (key: string) => roster.isKey('gateway', key);
  const expected = { kind: EnvelopeKind.EVENT, subject: message.subject, issuer: isGateway, nowMs: Date.now() };
  const opened = openEnvelope(message.data, expected);
  if (!opened.ok) return undefined;
  try {
    return CallEvent.decode(opened.value.body);
  } catch {
    return undefined;
  }
}

/** Subscribes to the agent's own events on `connection`. */
export function createLink(connection: NatsConnection, identity: Identity, roster: KnownRoster): Link {
  const followers = new Set<Follower>();
  const eventSubject = subjects.event(identity.id, 'any').replace(/any$/, '>');
  connection.subscribe(eventSubject, {
    callback: (error, message) => {
      const event = error ? undefined : verifiedEvent(message, roster);
      if (!event) return;
      for (const follower of [...followers]) if (follower.matches(event)) follower.onEvent(event);
    },
  });
  connection.subscribe(subjects.roster(), {
    callback: (error, message) => {
      if (!error) roster.take(message.data);
    },
  });
  connection.closed().then((error) => {
    const reason = error ?? new Error('connection to the control plane is closed');
    for (const follower of followers) follower.onClosed(reason);
  });
  return {
    identity,
    get controlSealKey() {
      return roster.key('control').sealKey;
    },
    callSubject: subjects.call(identity.id),
    cancelSubject: subjects.cancel(identity.id),
    isProof: (receipt) => verifyReceipt(receipt, (key) => roster.isKey('audit', key)),
    sign: (kind, subject, body, sequence = 0n) =>
      signEnvelope(identity, { kind, subject, body, nowMs: Date.now(), sequence }),
    publish: (subject, message) => {
      if (!connection.isClosed()) connection.publish(subject, message);
    },
    follow: (follower) => {
      followers.add(follower);
      return () => followers.delete(follower);
    },
  };
}
