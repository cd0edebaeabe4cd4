import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { connectChecked } from './connect-checked.ts';
import type { EgressLog, Hop } from './egress-log.ts';
import type { EgressPolicy } from './egress-policy.ts';

/** What the ways through the proxy share. */
export type EgressRoad = { readonly policy: EgressPolicy; readonly log: EgressLog };

export type Opened = { readonly socket: Socket } | { readonly refused: string };

/** Judges a target, logs the hop and connects to an address that was checked. */
export async function openRoad(
  { policy, log }: EgressRoad,
  via: Hop['via'],
  target: { readonly host: string; readonly port: number },
): Promise<Opened> {
  const checked = await policy.check(target.host, target.port);
  if (!checked.ok) {
    log.add({ via, ...target, refused: checked.error });
    return { refused: checked.error };
  }
  const { host, port } = checked.value;
  const socket = await connectChecked(checked.value);
  if (!socket) {
    log.add({ via, host, port, refused: 'does not answer' });
    return { refused: 'does not answer' };
  }
  log.add({ via, host, port, address: socket.remoteAddress ?? '' });
  return { socket };
}

const IDLE_MS = 300_000;

/** Joins both sides until either ends; the end of one direction is passed on, an error ends both. */
export function join(inner: Duplex, outer: Socket): void {
  const end = () => {
    inner.destroy();
    outer.destroy();
  };
  inner.on('error', end).on('close', end);
  outer.on('error', end).on('close', end);
  outer.setTimeout(IDLE_MS, end);
  inner.pipe(outer);
  outer.pipe(inner);
}
