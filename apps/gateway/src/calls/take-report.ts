import type { CallReport } from '@countersign/protocol';
import type { Gateway } from '../context.ts';
import { maskText } from '../masking.ts';
import { callEntry } from '../record/entries.ts';
import type { Member } from '../record/members.ts';
import { announce, announceRecord } from './announce.ts';
import { runsAtAgent } from './hand-over.ts';

const MAX_REASON = 2_000;

/**
 * Records how a call ended that its agent carried out itself, as the agent states it. A repeated or late report is answered
 * from the record; one for a call that was never handed over to this agent changes nothing.
 */
export async function takeReport(gateway: Gateway, member: Member, report: CallReport): Promise<void> {
  const { callId, state, sealedResult } = report;
  const record = await gateway.audit.getCall(member.id, callId);
  if (!record || !runsAtAgent(record) || (state !== 'done' && state !== 'failed'))
    return gateway.logger.warn({ agent: member.id, call: callId.slice(0, 64) }, 'report is refused');
  if (record.state !== 'handed_over') return void (await announce(gateway, callId));
  const nowMs = gateway.now();
  const reason = maskText(report.reason.slice(0, MAX_REASON));
  const detail = { state, reason, reported_by: 'agent', sandbox: 'none' };
  const reply = await gateway.audit.append({
    entries: [
      callEntry({ callId, type: 'exec.finished', toState: state, nowMs, body: { detail } }),
      callEntry({ callId, type: 'call.closed', nowMs, body: { detail: { state } } }),
    ],
    sealedResult,
    reason,
  });
  if (reply.call && !reply.refusal) await announceRecord(gateway, reply.call);
  else await announce(gateway, callId);
}
