import { err, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES, type ErrorCode, type FreezeState } from '@countersign/protocol';
import { sendControl } from '../broker/control.ts';
import type { Gateway } from '../context.ts';
import { maskText } from '../masking.ts';

export type FreezeWish = {
  readonly kind: 'set' | 'clear';
  readonly scope: string;
  readonly reason: string;
  readonly stopRunning: boolean;
};
type Refusal = { readonly code: ErrorCode; readonly message: string };

/** Takes over a state of the record and tells the other gateways that there is a newer one. */
function spread(gateway: Gateway, state: FreezeState): void {
  gateway.freeze.take(
    state.epoch,
    state.freezes.map(({ scope }) => scope),
  );
  gateway.broker.bus.tell('freeze');
}

/**
 * Freezes or unfreezes a scope, in the record first. Hosts learn it from the beat and, sooner where the beat is late, from a
 * signed message; they confirm with their heartbeat.
 */
export async function changeFreeze(
  gateway: Gateway,
  by: string,
  wish: FreezeWish,
): Promise<Result<FreezeState, Refusal>> {
  const { scope, stopRunning } = wish;
  const reason = maskText(wish.reason);
  const changed =
    wish.kind === 'set'
      ? await gateway.audit.setFreeze({ scope, reason, subject: by, stopRunning })
      : await gateway.audit.clearFreeze({ scope, reason, subject: by });
  if (!changed.ok)
    return err({
      code: changed.error.kind === 'not_found' ? ERROR_CODES.notFound : ERROR_CODES.invalidRequest,
      message: changed.error.message,
    });
  const state = changed.value;
  spread(gateway, state);
  if (wish.kind === 'set')
    for (const { id } of gateway.members.hosts())
      sendControl(gateway, id, { action: 'freeze', freezeEpoch: state.epoch, frozenScopes: [scope], reason });
  gateway.hub.emit('freeze', { scope, frozen: wish.kind === 'set', epoch: Number(state.epoch), by, reason }, '');
  return ok(state);
}

/** Reads the state again, when another gateway said that it changed. */
export async function refreshFreeze(gateway: Gateway): Promise<FreezeState> {
  const state = await gateway.audit.getFreeze();
  gateway.freeze.take(
    state.epoch,
    state.freezes.map(({ scope }) => scope),
  );
  return state;
}

/** Records what hosts confirmed with their heartbeats since the last round. */
export async function confirmFreezes(gateway: Gateway): Promise<void> {
  for (const { id } of gateway.members.hosts()) {
    const heartbeat = gateway.hosts.present(id, gateway.now());
    if (!heartbeat || heartbeat.freezeEpoch === 0n || !gateway.hosts.confirmsMore(id, heartbeat.freezeEpoch)) continue;
    const { freezeEpoch: epoch, running } = heartbeat;
    const confirmed = await gateway.audit.confirmFreeze({ host: id, epoch, running });
    if (confirmed.ok) gateway.hosts.confirmed(id, epoch);
  }
}
