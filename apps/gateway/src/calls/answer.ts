import { err, ok, type Result } from '@countersign/kernel';
import { type CallRecord, ERROR_CODES, type ErrorCode } from '@countersign/protocol';
import type { Gateway } from '../context.ts';
import { maskText } from '../masking.ts';
import { callEntry } from '../record/entries.ts';
import { announce } from './announce.ts';
import { newOrder, publishRecorded } from './dispatch.ts';
import { resumeReviews } from './guardian.ts';
import { readView } from './view.ts';

export type Answer = { readonly answer: 'approve' | 'deny'; readonly reason: string; readonly viewDigest: string };
export type AnswerRefusal = {
  readonly code: ErrorCode;
  readonly message: string;
  readonly winner?: string;
  readonly state?: string;
};

function lost(record: CallRecord): Result<never, AnswerRefusal> {
  const winner = record.decidedByName === '' ? record.state : record.decidedByName;
  const message = `call is \`${record.state}\`${record.decidedByName === '' ? '' : `, decided by ${winner}`}`;
  return err({ code: ERROR_CODES.alreadyDecided, message, winner, state: record.state });
}

/**
 * One person's answer to a waiting call. The first valid answer wins in the record; everybody else is told who won. An
 * approval is recorded together with its dispatch before anything leaves. Nobody decides on a call made for himself.
 */
export async function answerCall(
  gateway: Gateway,
  callId: string,
  by: { name: string },
  answer: Answer,
): Promise<Result<{ state: string }, AnswerRefusal>> {
  const record = await gateway.audit.getCall('', callId);
  if (!record) return err({ code: ERROR_CODES.notFound, message: 'no such call' });
  if (record.principal === by.name)
    return err({ code: ERROR_CODES.forbidden, message: 'nobody may decide on a call made for himself' });
  if (record.state !== 'pending') return lost(record);
  gateway.atStep('answer.taken');
  const nowMs = gateway.now();
  const approves = answer.answer === 'approve';
  const reason = maskText(answer.reason);
  const approver = { subject: by.name, method: 'session', shown: answer.viewDigest };
  const decision = {
    effect: approves ? 'allow' : 'deny',
    decided_by: 'human',
    policy_digest: gateway.policy.digest,
    reason,
  };
  const entry = (type: string, toState = '', body: object = {}) => callEntry({ callId, type, toState, nowMs, body });
  const decided = entry('decision', approves ? 'approved' : 'denied', { decision, approver });
  const answered = entry('approval.answered', '', { approver, detail: { answer: answer.answer } });
  const view = readView(record.view);
  const order = approves && view ? newOrder(gateway, record.host, view) : undefined;
  const reply = await gateway.audit.append({
    entries: [
      answered,
      decided,
      order
        ? entry('dispatch.sent', 'dispatched', { host: order.orderHost })
        : entry('call.closed', '', { detail: { state: 'denied' } }),
    ],
    ...(order ?? {}),
    decidedBy: 'human',
    decidedByName: by.name,
    expectedViewDigest: Buffer.from(answer.viewDigest, 'hex'),
    freezeEpoch: gateway.freezeEpoch(),
    reason,
  });
  if (reply.refusal?.code === ERROR_CODES.auditStaleView)
    return err({ code: ERROR_CODES.staleView, message: 'the call changed since you read it; read it again' });
  if (reply.refusal) {
    const now = await gateway.audit.getCall('', callId);
    return now && now.state !== 'pending'
      ? lost(now)
      : err({ code: ERROR_CODES.auditUnavailable, message: reply.refusal.message });
  }
  gateway.atStep('answer.recorded');
  if (approves)
    await publishRecorded(gateway, callId).catch((error: unknown) =>
      gateway.logger.warn({ err: error, call: callId }, 'order will be sent by the sweep'),
    );
  const session = await gateway.sessions.find(record.sessionId);
  if (session?.session.approval_mode === 'auto') resumeReviews(gateway, record.sessionId);
  const present = await announce(gateway, callId);
  const resolved = { callId, state: present?.state ?? record.state, decidedByName: by.name };
  gateway.hub.emit('approval_resolved', resolved, record.queue);
  return ok({ state: approves ? 'approved' : 'denied' });
}
