import { randomBytes } from 'node:crypto';
import { makeId } from '@countersign/kernel';
import { type CallRecord, ERROR_CODES } from '@countersign/protocol';
import type { Gateway } from '../context.ts';
import { refreshFreeze } from '../freeze/change-freeze.ts';
import { refreshPolicy } from '../policy/publish-policy.ts';
import { callEntry } from '../record/entries.ts';
import { announce, announceRecord } from './announce.ts';
import { redecideCall } from './redecide.ts';
import { redecideChanged } from './redecide-changed.ts';
import { standingOfCall } from './standing.ts';
import { readView, type View, viewTermsDigest } from './view.ts';

/** An approved call is kept for its agent this long; architecture.md, approved to dispatch. */
export const APPROVED_MS = 300_000;
/** An agent's report may come this long after the time limit of its call. */
const REPORT_GRACE_MS = 60_000;
const MAX_TRIES = 5;

/** True for a call that its agent carries out itself. */
export const runsAtAgent = ({ executor }: { readonly executor: string }): boolean => executor === 'agent';

/**
 * Facts and entry that hand an approved call over to its agent, who reports until `orderExpiresAtMs`; without a report the
 * outcome is unknown. The receipt names no host, so that no runner takes it.
 */
export function handOverOf(gateway: Gateway, callId: string, view: View) {
  const nowMs = gateway.now();
  return {
    order: {
      orderId: makeId('ord', nowMs, randomBytes),
      orderExpiresAtMs: BigInt(nowMs + view.obligations.timeout_ms + REPORT_GRACE_MS),
      termsDigest: viewTermsDigest(view),
    },
    entry: callEntry({
      ...{ callId, type: 'handed_over', toState: 'handed_over', nowMs },
      body: { detail: { executor: 'agent', sandbox: 'none' } },
    }),
  };
}

/**
 * Hands an approved call over to its agent, who has just asked for it, and tells him. INVARIANT: freeze and policy are judged
 * at this moment: in a frozen scope the call stays approved, a stricter policy withdraws it, and nothing of a revoked key is handed over.
 */
export async function handOver(gateway: Gateway, call: CallRecord): Promise<void> {
  const view = readView(call.view);
  if (!view || (await redecideChanged(gateway, call))) return;
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    const standing = standingOfCall(gateway, call);
    if (!standing) return;
    const { order, entry } = handOverOf(gateway, call.callId, view);
    const reply = await gateway.audit.append({
      ...order,
      entries: [entry],
      freezeEpoch: gateway.freeze.epoch,
      expected: [gateway.policy.basis(), gateway.layers.basis(), ...standing],
    });
    if (!reply.refusal && reply.call) return announceRecord(gateway, reply.call);
    const code = reply.refusal?.code;
    if (code === ERROR_CODES.auditFrozen) return void (await announce(gateway, call.callId, ERROR_CODES.frozen));
    if (code === ERROR_CODES.auditStaleFreeze) await refreshFreeze(gateway);
    else if (code === ERROR_CODES.auditStalePolicy) {
      await refreshPolicy(gateway);
      await gateway.layers.refresh();
      await gateway.members.refresh();
      if (standingOfCall(gateway, call) && (await redecideCall(gateway, call))) return;
    } else break;
  }
  await announce(gateway, call.callId);
}
