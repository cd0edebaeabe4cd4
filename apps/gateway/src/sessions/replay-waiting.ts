import { announce } from '../calls/announce.ts';
import { orderOf, publishRecorded } from '../calls/dispatch.ts';
import { runsAtAgent } from '../calls/hand-over.ts';
import { decideAgain } from '../calls/redecide.ts';
import { standingOfCall } from '../calls/standing.ts';
import { readView } from '../calls/view.ts';
import type { Gateway } from '../context.ts';
import { callEntry } from '../record/entries.ts';

const PAGE = 500;

/** Answers the waiting calls of a session that unattended mode would not have asked about. All others go on waiting. */
export async function replayWaiting(gateway: Gateway, session: string): Promise<void> {
  const page = await gateway.audit.listCalls(['pending'], PAGE, '', session);
  for (const record of page.calls) {
    const view = readView(record.view);
    const decision = view && (await decideAgain(gateway, record, view));
    const standing = standingOfCall(gateway, record);
    if (!view || !standing || decision?.effect !== 'allow' || !decision.lifts?.includes('eternal')) continue;
    const { callId } = record;
    const nowMs = gateway.now();
    const start = runsAtAgent(record) ? undefined : orderOf(gateway, callId, record.host, view);
    const made = { effect: 'allow', decided_by: 'eternal', policy_digest: gateway.policy.digest };
    const reply = await gateway.audit.append({
      ...start?.order,
      entries: [
        callEntry({ callId, type: 'decision', toState: 'approved', nowMs, body: { decision: made } }),
        ...(start ? [start.entry] : []),
      ],
      decidedBy: 'eternal',
      decidedByName: 'unattended mode',
      freezeEpoch: gateway.freeze.epoch,
      expected: [gateway.policy.basis(), gateway.layers.basis(), ...standing],
      reason: decision.reasons.join('; '),
    });
    if (reply.refusal) continue;
    await publishRecorded(gateway, callId);
    const present = await announce(gateway, callId);
    gateway.hub.emit('approval_resolved', { callId, state: present?.state ?? 'dispatched' }, record.queue);
  }
}
