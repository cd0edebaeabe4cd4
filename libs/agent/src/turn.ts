import { randomUUID } from 'node:crypto';
import { EnvelopeKind, Lease, subjects } from '@countersign/protocol';
import type { Link } from './link.ts';

/** A third of the lease, so that two lost renewals end nothing. */
const RENEW_MS = 10_000;

/** A turn of a session. Its calls end with it: when it is stopped, or when the agent is silent for thirty seconds. */
export type Turn = { readonly id: string; readonly stop: () => void };

/** Starts a turn and keeps it alive until it is stopped. */
export function startTurn(link: Link, session: string): Turn {
  const id = `turn_${randomUUID()}`;
  const subject = subjects.lease(link.identity.id, session);
  let sequence = BigInt(Date.now()) * 1_000n;
  const send = (action: 'renew' | 'stop') => {
    sequence += 1n;
    const body = Lease.encode({ turnId: id, action }).finish();
    link.publish(subject, link.sign(EnvelopeKind.LEASE, subject, body, sequence));
  };
  send('renew');
  const timer = setInterval(() => send('renew'), RENEW_MS);
  timer.unref();
  return {
    id,
    stop: () => {
      clearInterval(timer);
      send('stop');
    },
  };
}
