import { randomBytes } from 'node:crypto';
import { makeId } from '@countersign/kernel';
import type { CallRecord } from '@countersign/protocol';
import type { View } from '../calls/view.ts';
import type { Gateway } from '../context.ts';
import { json } from '../record/entries.ts';
import { coverText, type LiveGrant, type Narrowing } from './grant.ts';

/** Longest life of a grant; it ends earlier with its session or with the control plane. */
export const MAX_GRANT_MS = 8 * 3_600_000;

/** Uses of one grant; nobody reaches it in eight hours. */
const MAX_USES = 1_000_000;

/** A new grant for the session of `record`, as its approver saw it offered; undefined when the call offers none. */
export function newGrant(
  gateway: Gateway,
  record: CallRecord,
  view: View,
  by: { name: string; narrow?: Narrowing | undefined; grantMs?: number | undefined },
): LiveGrant | undefined {
  const covers = view.offers.session;
  if (!covers) return undefined;
  const nowMs = gateway.now();
  return {
    id: makeId('grt', nowMs, randomBytes),
    epoch: Number(gateway.grants.epoch),
    session: record.sessionId,
    agent: record.agent,
    principal: record.principal,
    host: record.host,
    queue: record.queue,
    covers,
    given_by: by.name,
    given_ms: nowMs,
    expires_ms: nowMs + Math.min(by.grantMs ?? MAX_GRANT_MS, MAX_GRANT_MS),
    call: record.callId,
    ...(by.narrow ? { narrow: by.narrow } : {}),
  };
}

/** The entry that makes a grant known to the record; it goes with the approval that gives it. */
export const grantCreated = (grant: LiveGrant, nowMs: number) => ({
  id: `ent_${grant.id}_grant.created_1`,
  type: 'grant.created',
  stream: grant.id,
  emittedMs: BigInt(nowMs),
  body: json({
    session: grant.session,
    host: grant.host,
    agent: { id: grant.agent, on_behalf_of: grant.principal },
    detail: {
      grant: grant.id,
      epoch: grant.epoch,
      by: grant.given_by,
      call: grant.call,
      reach: grant.covers.map(coverText),
      expires_ms: grant.expires_ms,
    },
  }),
});

/** What the record itself keeps the grant to. It counts uses only where they are bounded, so that they are. */
export const grantBounds = (grant: LiveGrant) => ({
  sessionId: grant.session,
  expiresAtMs: BigInt(grant.expires_ms),
  maxUses: MAX_USES,
});
