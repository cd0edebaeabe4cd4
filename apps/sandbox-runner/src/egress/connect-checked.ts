import { connect, type Socket } from 'node:net';
import type { Checked } from './egress-policy.ts';

const CONNECT_MS = 10_000;

function tryAddress(address: string, port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port, allowHalfOpen: true });
    const timer = setTimeout(() => socket.destroy(new Error('no answer')), CONNECT_MS);
    socket.once('connect', () => {
      clearTimeout(timer);
      resolve(socket);
    });
    socket.once('error', (error) => {
      clearTimeout(timer);
      reject(error);
    });
  });
}

/** A connection to one of the checked addresses; no name is looked up again. Undefined when none answers. */
export async function connectChecked({ addresses, port }: Checked): Promise<Socket | undefined> {
  for (const address of addresses) {
    const socket = await tryAddress(address, port).catch(() => undefined);
    if (socket) return socket;
  }
  return undefined;
}
