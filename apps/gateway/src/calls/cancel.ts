import type { CallState } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';
import { sendControl } from '../broker/control.ts';
import type { Gateway } from '../context.ts';
import { maskText } from '../masking.ts';
import { callEntry } from '../record/entries.ts';
import { announce, announceRecord } from './announce.ts';
import { askHost } from './repeat-stops.ts';
import { UNSTARTED } from './submit.ts';

export type CancelOutcome = 'cancelled' | 'stop_requested' | 'ended' | 'not_found';

/** Asks the host of an agent's own running call to let its command go on in the background. */
export async function backgroundCall(gateway: Gateway, agent: string, callId: string): Promise<void> {
  const record = await gateway.audit.getCall(agent, callId);
  if (record?.state !== 'dispatched' && record?.state !== 'running') return;
  const { orderId, orderHost } = record;
  sendControl(gateway, orderHost, { action: 'background', callId, orderId, reason: '' });
}

/** Cancels a waiting call, or asks the host to stop a dispatched or running one. Repeating it changes nothing more. */
export async function cancelCall(
  gateway: Gateway,
  agent: string,
  callId: string,
  by: string,
  reason: string,
): Promise<CancelOutcome> {
  const record = await gateway.audit.getCall(agent, callId);
  if (!record) return 'not_found';
  const nowMs = gateway.now();
  const detail = { detail: { by, reason: maskText(reason) } };
  const requested = callEntry({ callId, type: 'call.cancel_requested', nowMs, body: detail });
  if (UNSTARTED.includes(record.state as CallState)) {
    const closed = callEntry({
      callId,
      type: 'call.closed',
      toState: 'cancelled',
      nowMs,
      body: { detail: { state: 'cancelled', by } },
    });
    const reply = await gateway.audit.append({ entries: [requested, closed], reason: maskText(reason) });
    await announce(gateway, callId);
    if (!reply.refusal) {
      gateway.hub.emit('approval_resolved', { callId, state: 'cancelled' }, record.queue);
      return 'cancelled';
    }
    if (reply.refusal.code !== ERROR_CODES.auditLost) return 'ended';
    return cancelCall(gateway, agent, callId, by, reason);
  }
  if (!['dispatched', 'handed_over', 'running', 'backgrounded'].includes(record.state)) return 'ended';
  const reply = await gateway.audit.append({ entries: [requested] });
  gateway.atStep('stop.recorded');
  if (record.state === 'handed_over') {
    // Only its agent can end it.
    if (reply.call) await announceRecord(gateway, reply.call);
    return 'stop_requested';
  }
  askHost(gateway, record, { action: 'stop', reason: maskText(reason) });
  return 'stop_requested';
}
