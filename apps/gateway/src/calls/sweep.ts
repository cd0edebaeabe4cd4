import type { CallRecord } from '@countersign/protocol';
import type { Gateway } from '../context.ts';
import { endGrants } from '../grants/revoke-grants.ts';
import { refreshPolicy } from '../policy/publish-policy.ts';
import { callEntry } from '../record/entries.ts';
import { announce } from './announce.ts';
import { publishRecorded } from './dispatch.ts';
import { APPROVED_MS, runsAtAgent } from './hand-over.ts';
import { redecideAll } from './redecide.ts';
import { type FilesOfRound, redecideChanged } from './redecide-changed.ts';
import { readView } from './view.ts';

const PAGE = 500;
/** States that a round looks at. */
const SWEPT = ['received', 'pending', 'approved', 'dispatched', 'handed_over'] as const;
/** How long after an order's end a report may still come. */
const GRACE_MS = 60_000;
/** A dispatched call is sent again when it was silent for this long. */
export const RESEND_MS = 15_000;

async function close(
  gateway: Gateway,
  record: CallRecord,
  step: { type: string; state: string; reason: string; decidedBy?: string },
): Promise<void> {
  const { callId } = record;
  const nowMs = gateway.now();
  await gateway.audit.append({
    entries: [
      callEntry({
        callId,
        type: step.type,
        attempt: 'sweep',
        toState: step.state,
        nowMs,
        body: { detail: { reason: step.reason } },
      }),
      callEntry({ callId, type: 'call.closed', nowMs, body: { detail: { state: step.state } } }),
    ],
    reason: step.reason,
  });
  await announce(gateway, callId);
  if (record.state === 'pending') gateway.hub.emit('approval_resolved', { callId, state: step.state }, record.queue);
}

async function sweepDispatched(gateway: Gateway, record: CallRecord, silentMs: number): Promise<void> {
  const nowMs = gateway.now();
  const expiresMs = Number(record.orderExpiresAtMs);
  if (nowMs < expiresMs) {
    if (nowMs - Number(record.updatedMs) > silentMs) await publishRecorded(gateway, record.callId);
    return;
  }
  const timeoutMs = readView(record.view)?.obligations.timeout_ms ?? 0;
  if (nowMs < expiresMs + timeoutMs + GRACE_MS) return;
  const reason = `host \`${record.orderHost}\` did not report; whether the call ran is unknown`;
  await close(gateway, record, { type: 'exec.interrupted', state: 'interrupted', reason });
}

/** Ends a call that its agent did not come for, or did not report on. */
async function sweepHandedOver(gateway: Gateway, record: CallRecord): Promise<void> {
  const nowMs = gateway.now();
  if (record.state === 'handed_over') {
    if (nowMs < Number(record.orderExpiresAtMs)) return;
    const reason = 'the agent did not report; whether the call ran is unknown';
    return close(gateway, record, { type: 'exec.interrupted', state: 'unknown', reason });
  }
  if (nowMs < Math.min(Number(record.deadlineMs), Number(record.updatedMs) + APPROVED_MS)) return;
  const reason = 'the agent did not come for the approved call';
  await close(gateway, record, { type: 'approval.expired', state: 'expired', reason });
}

/** Ends grants whose time is over, and follows the ledger again when it was lost. */
async function sweepGrants(gateway: Gateway): Promise<void> {
  const end = { type: 'expired', by: 'gateway', reason: 'its time is over' } as const;
  await endGrants(gateway, gateway.grants.expired(), end);
  if (!(await gateway.grants.isCurrent())) await gateway.grants.sync();
}

/**
 * One round over unfinished calls: waiting ones past their deadline expire without an approver, dispatched ones are sent
 * again as the same order when silent for `silentMs`, and those without a report by expiry and grace are closed as
 * interrupted. A starting gateway passes 0, because its predecessor may have died between record and publish.
 */
export async function sweepCalls(gateway: Gateway, silentMs = RESEND_MS): Promise<void> {
  // Enrolments and changes that another gateway recorded.
  await gateway.members.refresh();
  const moved = [await refreshPolicy(gateway), await gateway.layers.refresh()];
  if (moved.includes(true)) await redecideAll(gateway);
  await sweepGrants(gateway);
  const files: FilesOfRound = new Map();
  let pageToken = '';
  do {
    const page = await gateway.audit.listCalls(SWEPT, PAGE, pageToken);
    for (const record of page.calls) {
      const turn = readView(record.view)?.turn;
      if (turn !== undefined) gateway.turns.expect(turn, { id: record.sessionId, host: record.host }, gateway.now());
      if (await redecideChanged(gateway, record, files)) continue;
      const late = gateway.now() > Number(record.deadlineMs);
      if (record.state === 'dispatched') await sweepDispatched(gateway, record, silentMs);
      else if (runsAtAgent(record) && record.state !== 'pending') await sweepHandedOver(gateway, record);
      else if (late)
        await close(gateway, record, {
          type: 'approval.expired',
          state: 'expired',
          reason: 'nobody answered before the deadline',
        });
    }
    pageToken = page.nextPageToken;
  } while (pageToken !== '');
}
