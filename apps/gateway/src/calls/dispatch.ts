import { randomBytes } from 'node:crypto';
import { FaultError, makeId } from '@countersign/kernel';
import {
  type CallRecord,
  EnvelopeKind,
  ERROR_CODES,
  type Receipt,
  sealTo,
  signEnvelope,
  subjects,
  WorkOrder,
} from '@countersign/protocol';
import type { Gateway } from '../context.ts';
import { callEntry } from '../record/entries.ts';
import { standingOfCall } from './standing.ts';
import { orderTerms, readView, type View, viewTermsDigest } from './view.ts';

/** An order may start for this long after it was handed out. */
export const ORDER_VALID_MS = 120_000;

/** Identifiers and terms of a dispatch, chosen before the append that records it. */
const newOrder = (gateway: Gateway, host: string, view: View) => ({
  orderId: makeId('ord', gateway.now(), randomBytes),
  orderHost: host,
  orderExpiresAtMs: BigInt(gateway.now() + ORDER_VALID_MS),
  termsDigest: viewTermsDigest(view),
});

/** Facts and entry that dispatch an approved call to its host. */
export function orderOf(gateway: Gateway, callId: string, host: string, view: View) {
  const order = newOrder(gateway, host, view);
  const body = { host, detail: { order: order.orderId } };
  const entry = callEntry({ callId, type: 'dispatch.sent', toState: 'dispatched', nowMs: gateway.now(), body });
  return { order, entry };
}

/**
 * Publishes the order of a dispatched call, built from the record alone, so that a repetition is the same order. Resolves
 * after the stream took it; a host whose journal is in doubt gets nothing now, and the sweep tries again; nothing of a revoked key is sent. INVARIANT: needs the receipt, which exists only after the decision and dispatch are durable.
 */
export async function publishOrder(gateway: Gateway, record: CallRecord, receipt: Receipt): Promise<void> {
  if (gateway.hosts.isWithheld(record.orderHost) || !standingOfCall(gateway, record)) return;
  const host = await gateway.members.find('host', record.orderHost);
  const view = readView(record.view);
  if (!host || !view || receipt.orderId !== record.orderId) {
    throw new FaultError('a dispatched call lacks host or view', { code: ERROR_CODES.internal });
  }
  const sealed =
    record.sealedPayload.length > 0
      ? record.sealedPayload
      : (await gateway.audit.getPayload(record.callId, 'gateway: dispatch'))?.sealedPayload;
  const payload = await gateway.control.open(sealed ?? new Uint8Array(), record.callId);
  const assertions = receipt.assertionsDigest.length === 0 ? [] : await gateway.governance.assertionsOf(record.callId);
  const approvers = assertions.length === 0 ? undefined : await gateway.access.passkeys.published();
  const order = WorkOrder.fromPartial({
    orderId: record.orderId,
    callId: record.callId,
    agent: record.agent,
    sessionId: record.sessionId,
    host: record.orderHost,
    tool: record.tool,
    ...orderTerms(view),
    ancestorSessionIds: record.ancestorSessionIds,
    callDigest: record.callDigest,
    expiresAtMs: record.orderExpiresAtMs,
    createdAtMs: record.orderExpiresAtMs - BigInt(ORDER_VALID_MS),
    sealedPayload: await sealTo(host.seal_key, payload, record.orderId),
    receipt,
    assertions,
    approverList: approvers?.signed ?? new Uint8Array(),
    traceparent: record.traceparent,
    canonicalEnvelope: record.canonicalEnvelope,
  });
  const subject = subjects.work(record.orderHost);
  const body = WorkOrder.encode(order).finish();
  const message = signEnvelope(gateway.identity, { kind: EnvelopeKind.ORDER, subject, body, nowMs: gateway.now() });
  await gateway.broker.jetstream.publish(subject, message);
  gateway.atStep('order.published');
}

/** Publishes the order of a call that is recorded as dispatched. Does nothing in any other state. */
export async function publishRecorded(gateway: Gateway, callId: string): Promise<void> {
  const record = await gateway.audit.getCall('', callId);
  if (record?.state !== 'dispatched') return;
  const receipt = await gateway.audit.getReceipt(callId);
  if (receipt) await publishOrder(gateway, record, receipt);
}
