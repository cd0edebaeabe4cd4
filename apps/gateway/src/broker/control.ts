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
 * outcome is durable up to `state`, so that the host need not send it again, `background` lets a running command go on without
 * its call waiting, `end_turn` and `end_session` stop what a session runs (the latter the background too), `revoke` keeps an order from starting but kills nothing, `freeze` is
 * ahead of the beat that says the same. Lost ones are
 * harmless: all are repeated.
 */
export function sendControl(
  gateway: Gateway,
  host: string,
  control:
    | {
        action: 'stop' | 'revoke' | 'recorded' | 'background';
        callId: string;
        orderId: string;
        reason: string;
        state?: string;
      }
    | { action: 'end_turn' | 'end_session'; sessionId: string; reason: string }
    | { action: 'freeze'; freezeEpoch: bigint; frozenScopes: string[]; reason: string },
): void {
  const subject = subjects.control(host);
  const nowMs = gateway.now();
  const sequence = nextSequence(nowMs);
  const body = Control.encode(Control.fromPartial(control)).finish();
  const message = { kind: EnvelopeKind.CONTROL, subject, body, nowMs, sequence };
  gateway.broker.connection.publish(subject, signEnvelope(gateway.identity, message));
}
