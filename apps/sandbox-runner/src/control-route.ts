import type { Clock } from '@countersign/kernel';
import { Control, EnvelopeKind, openEnvelope, subjects } from '@countersign/protocol';
import type { Logger } from '@countersign/service-kit';
import { SequenceGuard } from './work/sequence-guard.ts';

const VALID_MS = 30_000;

export type ControlOptions = {
  readonly host: string;
  readonly isGateway: (issuer: string) => boolean;
  readonly clock: Clock;
  readonly stop: (orderId: string, callId: string, reason: string) => void;
  /** The control plane has the outcome of this order. */
  readonly recorded: (orderId: string) => Promise<void>;
  /** Scopes are frozen from now on; the next beat says the rest. */
  readonly freeze: (epoch: bigint, scopes: readonly string[]) => void;
  readonly logger: Logger;
};

/** Takes messages of the control subject: signed by a gateway, at most 30 s old, each with a higher number than the last. */
export function controlRoute(options: ControlOptions): (bytes: Uint8Array, deliveredOn: string) => void {
  const { host, isGateway, clock, stop, recorded, freeze, logger } = options;
  const guard = new SequenceGuard();
  return (bytes, deliveredOn) => {
    if (deliveredOn !== subjects.control(host)) return;
    const opened = openEnvelope(bytes, {
      kind: EnvelopeKind.CONTROL,
      subject: deliveredOn,
      issuer: isGateway,
      nowMs: clock.now(),
      maxAgeMs: VALID_MS,
    });
    if (!opened.ok) return logger.warn({ code: opened.error.code }, 'control message is refused');
    if (!guard.rises(opened.value.issuer, opened.value.sequence)) {
      return logger.warn({ code: 'old_sequence' }, 'control message is refused');
    }
    try {
      const control = Control.decode(opened.value.body);
      if (control.action === 'stop') stop(control.orderId, control.callId, control.reason);
      else if (control.action === 'recorded') void recorded(control.orderId).catch(() => undefined);
      else if (control.action === 'freeze') freeze(control.freezeEpoch, control.frozenScopes);
      else logger.warn({ action: control.action.slice(0, 32) }, 'control action is not known');
    } catch {
      logger.warn({ code: 'malformed' }, 'control message is refused');
    }
  };
}
