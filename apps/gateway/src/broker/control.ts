import { Control, EnvelopeKind, signEnvelope, subjects } from '@countersign/protocol';
import type { Gateway } from '../context.ts';

let lastSequence = 0n;

/** Numbers rise over restarts, because they start from the clock. */
function nextSequence(nowMs: number): bigint {
  const floor = BigInt(nowMs) * 1_000n;
  lastSequence = lastSequence >= floor ? lastSequence + 1n : floor;
  return lastSequence;
}

/**
 * Sends a signed control message to a host: `stop` ends what runs or waits of an order, `recorded` tells that the order's
 * outcome is durable, so that the host need not send it again, `freeze` is ahead of the beat that says the same. Lost ones are
 * harmless: all are repeated.
 */
export function sendControl(
  gateway: Gateway,
  host: string,
  control:
    | { action: 'stop' | 'recorded'; callId: string; orderId: string; reason: string }
    | { action: 'freeze'; freezeEpoch: bigint; frozenScopes: string[]; reason: string },
): void {
  const subject = subjects.control(host);
  const nowMs = gateway.now();
  const sequence = nextSequence(nowMs);
  const body = Control.encode(Control.fromPartial(control)).finish();
  const message = { kind: EnvelopeKind.CONTROL, subject, body, nowMs, sequence };
  gateway.broker.connection.publish(subject, signEnvelope(gateway.identity, message));
}
