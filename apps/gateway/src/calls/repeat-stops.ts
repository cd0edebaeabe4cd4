import type { CallRecord } from '@countersign/protocol';
import { z } from 'zod';
import { sendControl } from '../broker/control.ts';
import type { Gateway } from '../context.ts';

/** `stop` ends what runs; `revoke` only keeps an order from starting. */
export type Stop = { readonly action: 'stop' | 'revoke'; readonly reason: string };

/** Stops of this gateway's memory; beyond it the oldest is read from the record again. */
const MAX_STOPS = 10_000;
/** A revocation is read again after this long, because a stop may have been asked for at another gateway meanwhile. */
const REVOKED_MS = 60_000;
const AT_HOST: readonly string[] = ['dispatched', 'running', 'backgrounded'];
const remembered = new WeakMap<Gateway, Map<string, { readonly stop: Stop; readonly sinceMs: number }>>();

const leafSchema = z.object({
  type: z.literal('call.cancel_requested'),
  detail: z.object({ reason: z.string().default(''), policy_digest: z.string().optional() }).prefault({}),
});

function remember(gateway: Gateway, callId: string, stop: Stop): void {
  const stops = remembered.get(gateway) ?? new Map<string, { stop: Stop; sinceMs: number }>();
  remembered.set(gateway, stops);
  stops.delete(callId);
  stops.set(callId, { stop, sinceMs: gateway.now() });
  const [oldest] = stops.keys();
  if (stops.size > MAX_STOPS && oldest !== undefined) stops.delete(oldest);
}

/** What the entries of a call ask its host for; undefined while the record does not show them yet. */
async function stopOnRecord(gateway: Gateway, callId: string): Promise<Stop | undefined> {
  const proven = await gateway.audit.evidence.proveCall(callId);
  if (!proven.ok) return undefined;
  const stops = proven.value.entries.flatMap(({ leaf }): Stop[] => {
    const parsed = leafSchema.safeParse(JSON.parse(new TextDecoder().decode(leaf)));
    if (!parsed.success) return [];
    const { reason, policy_digest } = parsed.data.detail;
    return [{ action: policy_digest === undefined ? 'stop' : 'revoke', reason }];
  });
  return stops.find(({ action }) => action === 'stop') ?? stops[0];
}

/** Asks the host of a call, for which that is recorded, to end it. Lost messages are harmless: the sweep repeats it. */
export function askHost(gateway: Gateway, record: CallRecord, stop: Stop): void {
  const { callId, orderId, orderHost } = record;
  remember(gateway, callId, stop);
  sendControl(gateway, orderHost, { ...stop, callId, orderId });
}

/**
 * Asks the host once more for what the record says was asked of it, signed anew, because a control message is valid for 30 s,
 * may be lost, and whoever recorded the stop may have died before sending it. Does nothing once the host reported the end.
 */
export async function repeatStop(gateway: Gateway, record: CallRecord): Promise<void> {
  if (!record.stopRequested || !AT_HOST.includes(record.state)) return;
  const known = remembered.get(gateway)?.get(record.callId);
  const isOld = known?.stop.action === 'revoke' && gateway.now() - known.sinceMs > REVOKED_MS;
  const stop = known && !isOld ? known.stop : await stopOnRecord(gateway, record.callId);
  if (!stop) return;
  if (!known || isOld) remember(gateway, record.callId, stop);
  const { callId, orderId, orderHost } = record;
  sendControl(gateway, orderHost, { ...stop, callId, orderId });
}
