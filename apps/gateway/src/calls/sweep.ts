import type { CallRecord } from '@countersign/protocol';
import type { Gateway } from '../context.ts';
import { endGrants } from '../grants/revoke-grants.ts';
import { refreshPolicy } from '../policy/publish-policy.ts';
import { callEntry } from '../record/entries.ts';
import { expireRequests } from '../requests/answer-request.ts';
import { finishClosing } from '../sessions/finish-closing.ts';
import { announce } from './announce.ts';
import { publishRecorded } from './dispatch.ts';
import { endWhatRevokedKeysStarted } from './end-revoked.ts';
import { APPROVED_MS, runsAtAgent } from './hand-over.ts';
import { redecideUnsettled } from './redecide.ts';
import { type FilesOfRound, noteFiles, placeOf, redecideChanged } from './redecide-changed.ts';
import { repeatStop } from './repeat-stops.ts';
import { readView } from './view.ts';

const PAGE = 200;
/** Unfinished states in which nobody is waited for. */
const STARTED = ['received', 'approved', 'dispatched', 'running', 'backgrounded', 'handed_over'] as const;
/** A host that was not heard of for this long is lost, and with it what ran in its background. */
const LOST_MS = 3_600_000;
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

/** Sends an order again, or ends a call whose host reported neither start nor end by the latest time that it could have. */
async function sweepDispatched(gateway: Gateway, record: CallRecord, silentMs: number): Promise<void> {
  const nowMs = gateway.now();
  const expiresMs = Number(record.orderExpiresAtMs);
  if (nowMs < expiresMs) {
    const isSilent = record.state === 'dispatched' && nowMs - Number(record.updatedMs) > silentMs;
    if (isSilent) await publishRecorded(gateway, record.callId);
    return;
  }
  const timeoutMs = readView(record.view)?.obligations.timeout_ms ?? 0;
  if (nowMs < expiresMs + timeoutMs + GRACE_MS) return;
  const what = record.state === 'running' ? 'how the call ended' : 'whether the call ran';
  const reason = `host \`${record.orderHost}\` did not report; ${what} is unknown`;
  await close(gateway, record, { type: 'exec.interrupted', state: 'interrupted', reason });
}

/**
 * Ends a background command whose host is lost. A host that is there, or comes back sooner, says itself how it ended, also after
 * a crash: its journal knows. A gateway that has just started gives every host the whole time.
 */
async function sweepBackgrounded(gateway: Gateway, record: CallRecord): Promise<void> {
  const heardMs = Math.max(gateway.hosts.seenMs(record.orderHost) ?? gateway.startedMs, Number(record.updatedMs));
  if (gateway.now() - heardMs < LOST_MS) return;
  const reason = `host \`${record.orderHost}\` is lost; how the background command ended is unknown`;
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

/** What one round works with. */
type Round = {
  readonly silentMs: number;
  readonly files: FilesOfRound;
  /** Sessions that this round looked at, and whether they are closed; absent where it looks at none. */
  readonly closed?: Map<string, boolean>;
};

async function sweepOne(gateway: Gateway, record: CallRecord, { silentMs, files, closed }: Round): Promise<void> {
  if (closed && !record.stopRequested && (await finishClosing(gateway, record, closed))) return;
  await repeatStop(gateway, record);
  const view = readView(record.view);
  const { turn } = view ?? {};
  if (turn !== undefined) gateway.turns.expect(turn, { id: record.sessionId, host: record.host }, gateway.now());
  if (record.state === 'running') return sweepDispatched(gateway, record, silentMs);
  if (record.state === 'backgrounded') return sweepBackgrounded(gateway, record);
  if (await redecideChanged(gateway, record, files)) return;
  if (record.state === 'dispatched') return sweepDispatched(gateway, record, silentMs);
  if (runsAtAgent(record) && record.state !== 'pending') return sweepHandedOver(gateway, record);
  const deadlineMs = Number(record.deadlineMs);
  if (gateway.now() <= deadlineMs) {
    if (record.state === 'pending' && view) gateway.waiting.note(record.callId, deadlineMs, placeOf(record, view));
    return;
  }
  const reason = 'nobody answered before the deadline';
  await close(gateway, record, { type: 'approval.expired', state: 'expired', reason });
}

/** Sweeps what is listed, newest first, until a page holds nothing but calls for which `wanted` is false. */
async function sweepListed(
  gateway: Gateway,
  states: readonly string[],
  wanted: (record: CallRecord) => boolean,
  round: Round,
): Promise<void> {
  let pageToken = '';
  do {
    const page = await gateway.audit.listCalls(states, PAGE, pageToken);
    const records = page.calls.filter(wanted);
    for (const record of records) await sweepOne(gateway, record, round);
    pageToken = records.length === 0 ? '' : page.nextPageToken;
  } while (pageToken !== '');
}

/**
 * One round over unfinished calls: waiting ones past their deadline expire without an approver, dispatched ones are sent
 * again as the same order when silent for `silentMs`, and those without a report by expiry and grace are closed as
 * interrupted. A starting gateway passes 0, because its predecessor may have died between record and publish. A call that waits
 * is read when it is new and when it is due, and with all others once a minute or when permission files of hosts changed.
 */
export async function sweepCalls(gateway: Gateway, silentMs = RESEND_MS): Promise<void> {
  const { waiting } = gateway;
  // Enrolments and changes that another gateway recorded.
  await gateway.members.refresh();
  await refreshPolicy(gateway);
  await gateway.layers.refresh();
  void redecideUnsettled(gateway);
  await sweepGrants(gateway);
  await expireRequests(gateway);
  await endWhatRevokedKeysStarted(gateway);
  const whole = waiting.isWholeDue(gateway.now());
  const round: Round = { silentMs, files: new Map(), ...(whole ? { closed: new Map() } : {}) };
  await sweepListed(gateway, STARTED, () => true, round);
  await sweepListed(gateway, ['pending'], ({ callId }) => whole || !waiting.isKnown(callId), round);
  for (const callId of waiting.takeDue(gateway.now())) {
    const record = await gateway.audit.getCall('', callId);
    if (record?.state === 'pending') await sweepOne(gateway, record, round);
  }
  await noteFiles(gateway, round.files);
}
