import type { Socket } from 'node:net';
import { type EgressRoad, join, openRoad } from './egress-road.ts';

const VERSION = 5;
const NO_AUTHENTICATION = 0;
const CONNECT = 1;
const IPV4 = 1;
const NAME = 3;
const IPV6 = 4;
/** Longest request: a name of 255 bytes. */
const MAX_REQUEST_BYTES = 4 + 1 + 255 + 2;
const MAX_GREETING_BYTES = 2 + 255;
const SUCCEEDED = 0;
const NOT_ALLOWED = 2;
const UNREACHABLE = 4;
const NOT_SUPPORTED = 7;

type Request = { readonly command: number; readonly host: string; readonly port: number; readonly bytes: number };

/** Reads until `parse` has an answer; undefined when the peer ends, or sends more than `limit` without one. */
async function readMessage<T extends { readonly bytes: number }>(
  socket: Socket,
  limit: number,
  parse: (buffer: Buffer) => T | 'more' | 'invalid',
): Promise<T | undefined> {
  let buffer = Buffer.alloc(0);
  for await (const chunk of socket.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    buffer = Buffer.concat([buffer, chunk]);
    const found = parse(buffer);
    if (found === 'invalid') return undefined;
    if (found !== 'more') {
      if (buffer.length > found.bytes) socket.unshift(buffer.subarray(found.bytes));
      return found;
    }
    if (buffer.length >= limit) return undefined;
  }
  return undefined;
}

function parseGreeting(buffer: Buffer): { bytes: number; offersNone: boolean } | 'more' | 'invalid' {
  if (buffer[0] !== VERSION) return 'invalid';
  const count = buffer[1];
  if (count === undefined || buffer.length < 2 + count) return 'more';
  return { bytes: 2 + count, offersNone: buffer.subarray(2, 2 + count).includes(NO_AUTHENTICATION) };
}

function ipv6Text(bytes: Buffer): string {
  const groups = Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(index * 2).toString(16));
  return `[${groups.join(':')}]`;
}

/** Length of the address that starts at byte 4; undefined while it is not known, 0 for an unknown kind. */
function addressLength(buffer: Buffer): number | undefined {
  const kind = buffer[3];
  if (kind === IPV4) return 4;
  if (kind === IPV6) return 16;
  if (kind === NAME) return buffer[4] === undefined ? undefined : 1 + buffer[4];
  return 0;
}

function hostOf(kind: number | undefined, address: Buffer): string {
  if (kind === IPV4) return address.join('.');
  return kind === IPV6 ? ipv6Text(address) : address.toString('latin1', 1);
}

function parseRequest(buffer: Buffer): Request | 'more' | 'invalid' {
  if (buffer.length < 4) return 'more';
  const length = addressLength(buffer);
  if (buffer[0] !== VERSION || buffer[2] !== 0 || length === 0) return 'invalid';
  if (length === undefined || buffer.length < 4 + length + 2) return 'more';
  const host = hostOf(buffer[3], buffer.subarray(4, 4 + length));
  return { command: buffer[1] ?? 0, host, port: buffer.readUInt16BE(4 + length), bytes: 4 + length + 2 };
}

const reply = (code: number): Buffer => Buffer.from([VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0]);

/** Speaks SOCKS5 (RFC 1928) without authentication; CONNECT alone. `ready` is called when the request has been read. */
export async function socksRoad(road: EgressRoad, inner: Socket, ready: () => void): Promise<void> {
  const greeting = await readMessage(inner, MAX_GREETING_BYTES, parseGreeting);
  if (!greeting) return void inner.destroy();
  if (!greeting.offersNone) return void inner.end(Buffer.from([VERSION, 0xff]));
  inner.write(Buffer.from([VERSION, NO_AUTHENTICATION]));
  const asked = await readMessage(inner, MAX_REQUEST_BYTES, parseRequest);
  if (!asked) return void inner.destroy();
  ready();
  const { command, host, port } = asked;
  if (command !== CONNECT) {
    road.log.add({ via: 'socks', host, port, refused: 'only connections are passed on' });
    return void inner.end(reply(NOT_SUPPORTED));
  }
  const opened = await openRoad(road, 'socks', { host, port });
  if ('refused' in opened) {
    return void inner.end(reply(opened.refused === 'does not answer' ? UNREACHABLE : NOT_ALLOWED));
  }
  inner.write(reply(SUCCEEDED));
  join(inner, opened.socket);
}
