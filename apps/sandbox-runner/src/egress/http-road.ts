import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { canonicalHost, parseTarget } from '@countersign/patterns';
import { type EgressRoad, join, openRoad } from './egress-road.ts';

const MAX_HEAD_BYTES = 16_384;
const HOP_BY_HOP = new Set([
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te', 'trailer'],
  ...['transfer-encoding', 'upgrade'],
]);

type Target = { readonly host: string; readonly port: number };

/** Host and port of `host:port` or `[v6]:port`; undefined for anything else. */
function parseAuthority(text: string, port: number | undefined): Target | undefined {
  const match = /^(\[[0-9A-Fa-f:.]+\]|[^\s[\]:@/?#\\]+)(?::(\d{1,5}))?$/.exec(text);
  const number = match?.[2] === undefined ? port : Number(match[2]);
  return match?.[1] !== undefined && number !== undefined ? { host: match[1], port: number } : undefined;
}

/** SECURITY: a Host that names another place than the request line would be answered by that place. */
function hostAgrees(rawHeaders: readonly string[], target: Target): boolean {
  const headers = rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === 'host');
  const named = headers.length === 1 ? parseAuthority(headers[0] ?? '', 80) : undefined;
  return named !== undefined && canonicalHost(named.host) === target.host && named.port === target.port;
}

function endToEnd(raw: readonly string[], connection: string | undefined): string[] {
  const named = new Set((connection ?? '').split(',').map((name) => name.trim().toLowerCase()));
  const kept: string[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = (raw[at] as string).toLowerCase();
    if (!HOP_BY_HOP.has(name) && !named.has(name)) kept.push(raw[at] as string, raw[at + 1] as string);
  }
  return kept;
}

function answer(response: ServerResponse, status: number, text: string): void {
  if (response.headersSent) response.destroy();
  else response.writeHead(status, { 'content-type': 'text/plain', connection: 'close' }).end(`${text}\n`);
}

async function forward(road: EgressRoad, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  response.shouldKeepAlive = false;
  const target = parseTarget(incoming.url ?? '');
  if (!target?.port || !/^http:/i.test(incoming.url ?? '')) {
    answer(response, 400, 'this proxy takes CONNECT, and absolute http URLs');
    return;
  }
  const { host, port } = target;
  if (!hostAgrees(incoming.rawHeaders, { host, port })) {
    road.log.add({ via: 'http', host, port, refused: 'does not agree with the one Host header' });
    answer(response, 400, 'the Host header names another place than the request line');
    return;
  }
  const opened = await openRoad(road, 'http', { host, port });
  if ('refused' in opened) {
    answer(response, 403, `\`${host}:${port}\` ${opened.refused}`);
    return;
  }
  const { socket } = opened;
  const url = new URL(incoming.url ?? '');
  const headers = [...endToEnd(incoming.rawHeaders, incoming.headers.connection), 'Connection', 'close'];
  if (incoming.headers['transfer-encoding'] !== undefined) headers.push('Transfer-Encoding', 'chunked');
  const outgoing = request({
    createConnection: () => socket,
    method: incoming.method ?? 'GET',
    path: `${url.pathname}${url.search}`,
    headers,
    setHost: false,
    maxHeaderSize: MAX_HEAD_BYTES,
  });
  response.once('close', () => socket.destroy());
  incoming.once('error', () => socket.destroy());
  outgoing.once('error', () => answer(response, 502, `\`${host}:${port}\` gave no valid answer`));
  outgoing.once('response', (reply) => {
    response.writeHead(reply.statusCode ?? 502, endToEnd(reply.rawHeaders, reply.headers.connection));
    reply.on('error', () => response.destroy());
    reply.pipe(response);
  });
  incoming.pipe(outgoing);
}

async function tunnel(road: EgressRoad, incoming: IncomingMessage, inner: Duplex, head: Buffer): Promise<void> {
  inner.on('error', () => inner.destroy());
  const target = parseAuthority(incoming.url ?? '', undefined);
  if (!target) {
    inner.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n');
    return;
  }
  const opened = await openRoad(road, 'connect', target);
  if ('refused' in opened) {
    inner.end(
      `HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n\`${target.host}:${target.port}\` ${opened.refused}\n`,
    );
    return;
  }
  inner.write('HTTP/1.1 200 Connection established\r\n\r\n');
  if (head.length > 0) inner.unshift(head);
  join(inner, opened.socket);
}

/** The part of the proxy that speaks HTTP. Give it connections with `emit('connection', socket)`; it never listens. */
export function httpRoad(road: EgressRoad): Server {
  const server = createServer({ maxHeaderSize: MAX_HEAD_BYTES, insecureHTTPParser: false, requireHostHeader: true });
  server.on('request', (incoming, response) => {
    forward(road, incoming, response).catch(() => answer(response, 502, 'the proxy failed'));
  });
  server.on('connect', (incoming, inner, head) => {
    tunnel(road, incoming, inner, head).catch(() => inner.destroy());
  });
  server.on('clientError', (_, socket) => {
    if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n');
    else socket.destroy();
  });
  return server;
}
