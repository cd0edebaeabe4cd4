import { sendControl } from '../broker/control.ts';
import type { Gateway } from '../context.ts';

/** What a host was asked to stop. */
type Stop = { readonly callId: string; readonly orderId: string; readonly host: string; readonly reason: string };

/** Stops that are remembered; beyond it the oldest is not repeated any more. */
const MAX_STOPS = 10_000;
const AT_HOST: readonly string[] = ['dispatched', 'running', 'backgrounded'];
const asked = new WeakMap<Gateway, Map<string, Stop>>();

function sendStop(gateway: Gateway, { callId, orderId, host, reason }: Stop): void {
  sendControl(gateway, host, { action: 'stop', callId, orderId, reason });
}

/** Asks a host to stop a call, and again until it reported the end. */
export function stopAtHost(gateway: Gateway, stop: Stop): void {
  const stops = asked.get(gateway) ?? new Map<string, Stop>();
  asked.set(gateway, stops);
  stops.delete(stop.callId);
  stops.set(stop.callId, stop);
  const [oldest] = stops.keys();
  if (stops.size > MAX_STOPS && oldest !== undefined) stops.delete(oldest);
  sendStop(gateway, stop);
}

/**
 * Sends every stop again whose call has not ended, each signed anew, because a control message is valid for 30 s and may be
 * lost. What a gateway asked for before it was restarted is not repeated: cancel the call again.
 */
export async function repeatStops(gateway: Gateway): Promise<void> {
  const stops = asked.get(gateway);
  for (const stop of stops?.values() ?? []) {
    const record = await gateway.audit.getCall('', stop.callId);
    if (record && AT_HOST.includes(record.state)) sendStop(gateway, stop);
    else stops?.delete(stop.callId);
  }
}
