import { type Identity, type Receipt, signReceipt } from '@countersign/protocol';
import type { CallMemory } from './call-memory.ts';

/** Receipt of a dispatched or handed-over call; signing again gives the same bytes, because Ed25519 is deterministic. */
export function receiptOf(call: CallMemory, identity: Identity): Receipt | undefined {
  if (!call.decision || call.record.orderId === '') return undefined;
  return signReceipt(identity, {
    callId: call.record.callId,
    orderId: call.record.orderId,
    host: call.record.orderHost,
    callDigest: call.record.callDigest,
    entryId: call.decision.id,
    logIndex: BigInt(call.decision.index),
    leafHash: Buffer.from(call.decision.leafHash, 'hex'),
    decidedBy: call.record.decidedBy,
    assertionsDigest: Buffer.from(call.decision.assertionsDigest, 'hex'),
    termsDigest: call.record.termsDigest,
  });
}
