import { type CallState, isTerminal } from '@countersign/kernel';
import {
  CallEvent,
  type CallRecord,
  EnvelopeKind,
  ERROR_CODES,
  sealTo,
  signEnvelope,
  subjects,
} from '@countersign/protocol';
import { traceId } from '@countersign/service-kit';
import type { Gateway } from '../context.ts';

type EventFacts = Partial<Parameters<typeof CallEvent.fromPartial>[0]> & {
  readonly type: string;
  readonly sessionId: string;
};

/** Publishes a signed event to an agent; lost ones are asked for again by resending the call. */
export function tellAgent(gateway: Gateway, agent: string, facts: EventFacts): void {
  const subject = subjects.event(agent, facts.sessionId);
  const body = CallEvent.encode(CallEvent.fromPartial({ ...facts, atMs: BigInt(gateway.now()) })).finish();
  const message = signEnvelope(gateway.identity, { kind: EnvelopeKind.EVENT, subject, body, nowMs: gateway.now() });
  gateway.broker.connection.publish(subject, message);
}

/** A call as lists and event streams show it: masked text only. */
export const callSummary = (record: CallRecord) => ({
  callId: record.callId,
  agent: record.agent,
  sessionId: record.sessionId,
  /** The session at which a person sees it; the one that executes is `sessionId`. */
  rootSessionId: record.ancestorSessionIds.at(-1) ?? record.sessionId,
  host: record.host,
  ...(record.executor === 'agent' ? { executor: 'agent', sandbox: 'none' } : {}),
  tool: record.tool,
  action: record.action,
  summary: record.summary,
  state: record.state,
  receivedMs: Number(record.receivedMs),
  deadlineMs: Number(record.deadlineMs),
  queue: record.queue,
  principal: record.principal,
  ...(record.decidedBy === '' ? {} : { decidedBy: record.decidedBy, decidedByName: record.decidedByName }),
  ...(record.reason === '' ? {} : { reason: record.reason }),
});

/** The result of a call, sealed to its agent; empty when there is none or the agent is gone. */
async function resultFor(gateway: Gateway, record: CallRecord): Promise<Uint8Array> {
  if (record.orderHost === '') return new Uint8Array();
  const member = await gateway.members.find('agent', record.agent);
  if (!member) return new Uint8Array();
  const sealed =
    record.sealedResult.length > 0
      ? record.sealedResult
      : (await gateway.audit.getPayload(record.callId, `agent ${record.agent}`))?.sealedResult;
  if (!sealed || sealed.length === 0) return new Uint8Array();
  const result = await gateway.control.open(sealed, record.orderId);
  return sealTo(member.seal_key, result, record.callId);
}

/** Tells agent and desk the present state of a call, read from the record. */
export async function announce(gateway: Gateway, callId: string, code = ''): Promise<CallRecord | undefined> {
  const record = await gateway.audit.getCall('', callId);
  if (record) await announceRecord(gateway, record, code);
  return record;
}

const UNREACHABLE =
  'nobody who may decide follows the desk, and no channel tells of it; the call waits until its deadline';

/** Tells the agent of a waiting call at once when nobody is there to answer. Delays nothing. */
function warnUnreachable(gateway: Gateway, { callId, sessionId, agent, queue, principal }: CallRecord): void {
  const warn = (reachable: boolean) => {
    if (reachable) return;
    const code = ERROR_CODES.noApprover;
    gateway.logger.warn({ call: callId, queue }, UNREACHABLE);
    tellAgent(gateway, agent, {
      ...{ type: 'call.state', callId, sessionId },
      ...{ state: 'pending', code, reason: UNREACHABLE },
    });
  };
  void gateway.reach.isReachable({ queue, principal }).then(warn);
}

/** Tells agent and desk the state of a call that was just read or recorded. A closed call carries its sealed result. */
export async function announceRecord(gateway: Gateway, record: CallRecord, code = ''): Promise<void> {
  const { callId, state, host } = record;
  gateway.logger.info({ call: callId, state, host, trace: traceId(record.traceparent) }, 'call state');
  const terminal = isTerminal(record.state as CallState);
  tellAgent(gateway, record.agent, {
    type: 'call.state',
    callId,
    sessionId: record.sessionId,
    state: record.state,
    decidedBy: record.decidedBy,
    reason: record.reason,
    code,
    sealedResult: terminal ? await resultFor(gateway, record) : new Uint8Array(),
    receipt: state === 'handed_over' ? await gateway.audit.getReceipt(callId) : undefined,
    stopRequested: record.stopRequested,
  });
  if (terminal) gateway.output.end(callId);
  if (state === 'pending') warnUnreachable(gateway, record);
  const name = record.state === 'pending' ? 'approval_request' : 'call';
  gateway.hub.emit(name, callSummary(record), record.queue);
}
