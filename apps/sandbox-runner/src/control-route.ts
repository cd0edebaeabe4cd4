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
  /** An order must not start; what runs goes on. */
  readonly revoke: (orderId: string, callId: string, reason: string) => void;
  /** A running command goes on without its call waiting. */
  readonly background: (orderId: string, callId: string) => void;
  /** A turn, or with `all` a session, has ended. */
  readonly endSession: (sessionId: string, reason: string, all: boolean) => void;
  /** The control plane has the outcome of this order up to `state`. */
  readonly recorded: (orderId: string, state: string) => Promise<void>;
  /** Scopes are frozen from now on; the next beat says the rest. */
  readonly freeze: (epoch: bigint, scopes: readonly string[]) => void;
  readonly logger: Logger;
};

type Handler = (control: Control) => void;

function handlersOf(options: ControlOptions): Readonly<Record<string, Handler>> {
  const { stop, revoke, background, endSession, recorded, freeze } = options;
  return {
    stop: ({ orderId, callId, reason }) => stop(orderId, callId, reason),
    revoke: ({ orderId, callId, reason }) => revoke(orderId, callId, reason),
    background: ({ orderId, callId }) => background(orderId, callId),
    end_turn: ({ sessionId, reason }) => endSession(sessionId, reason || 'the turn ended', false),
    end_session: ({ sessionId, reason }) => endSession(sessionId, reason || 'the session was deleted', true),
    recorded: ({ orderId, state }) => void recorded(orderId, state).catch(() => undefined),
    freeze: ({ freezeEpoch, frozenScopes }) => freeze(freezeEpoch, frozenScopes),
  };
}

/** Takes messages of the control subject: signed by a gateway, at most 30 s old, each with a higher number than the last. */
export function controlRoute(options: ControlOptions): (bytes: Uint8Array, deliveredOn: string) => void {
  const { host, isGateway, clock, logger } = options;
  const handlers = handlersOf(options);
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
      const { action } = control;
      if (Object.hasOwn(handlers, action)) handlers[action]?.(control);
      else logger.warn({ action: action.slice(0, 32) }, 'control action is not known');
    } catch {
      logger.warn({ code: 'malformed' }, 'control message is refused');
    }
  };
}
