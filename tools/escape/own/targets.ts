import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import { createServer as createHttpServer } from 'node:http';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { ANSWER, METADATA, PUBLIC, UDP_PORT, ZONE } from './network-checks.ts';

const questions = new Map<string, number>();

function nameOf(query: Buffer): { name: string; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), end: at + 5 };
}

/** The 16 bytes of `::1` and of mapped addresses, the 4 of others. */
function bytesOf(address: string): Buffer {
  if (!address.includes(':')) return Buffer.from(address.split('.').map(Number));
  const mapped = address.startsWith('::ffff:') ? bytesOf(address.slice(7)) : Buffer.from([0, 0, 0, 1]);
  const prefix = Buffer.alloc(12);
  if (address.startsWith('::ffff:')) prefix.fill(0xff, 10);
  return Buffer.concat([prefix, mapped]);
}

function answerTo(query: Buffer): Buffer {
  const { name, end } = nameOf(query);
  const type = query.readUInt16BE(end - 4);
  const isAsked = type === 1 || type === 28;
  const count = questions.get(name) ?? 0;
  if (type === 1) questions.set(name, count + 1);
  const lists = isAsked ? (ZONE[name] ?? []) : [];
  const all = lists[Math.min(count, lists.length - 1)] ?? [];
  const addresses = all.filter((address) => address.includes(':') === (type === 28)).map(bytesOf);
  const head = Buffer.from(query.subarray(0, 12));
  head.writeUInt16BE(lists.length > 0 ? 0x8180 : 0x8183, 2);
  head.writeUInt16BE(addresses.length, 6);
  head.writeUInt32BE(0, 8);
  const records = addresses.map((bytes) =>
    Buffer.concat([Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, 0, bytes.length]), bytes]),
  );
  return Buffer.concat([head, query.subarray(12, end), ...records]);
}

const listening = (server: Server, port: number, host: string): Promise<void> =>
  new Promise((resolve, reject) => server.once('error', reject).listen(port, host, resolve));

async function serveHttp(host: string, port: number, text: string): Promise<void> {
  const server = createHttpServer((request, response) => {
    // A proxy that passes everything on leaves the whole address in the request line.
    const url = request.url?.replace(/^http:\/\/[^/]+/, '');
    response.setHeader('connection', 'close');
    if (url === '/away') response.writeHead(302, { location: `http://${METADATA}/` });
    if (url === '/away-by-name') response.writeHead(302, { location: 'http://inner.example/' });
    response.end(url?.startsWith('/away') ? '' : text);
  });
  await listening(server, port, host);
}

async function answerUdp(host: string, port: number, answer: (query: Buffer) => Buffer): Promise<void> {
  const server: UdpSocket = createSocket('udp4');
  server.on('message', (query, from) => server.send(answer(query), from.port, from.address));
  await new Promise<void>((resolve) => server.bind(port, host, resolve));
}

const addressOf = async (host: string): Promise<string> => (await lookup(host.replace(/^\[|\]$/g, ''))).address;

async function joinTo(client: Socket, host: string, port: number, head: string | Buffer, early: Buffer): Promise<void> {
  const upstream = connect(port, await addressOf(host), () => {
    if (head.length > 0) client.write(head);
    upstream.write(early);
    client.pipe(upstream).pipe(client);
  });
  upstream.on('error', () => client.destroy());
}

/** SOCKS5 without a login: greeting, then a request. */
function socks(client: Socket): void {
  client.write(Buffer.from([5, 0]));
  client.once('data', (request) => {
    const kind = request[3];
    const length = kind === 1 ? 4 : kind === 4 ? 16 : (request[4] ?? 0) + 1;
    const raw = request.subarray(4, 4 + length);
    const v6 = () => (raw.toString('hex').match(/.{4}/g) ?? []).join(':');
    const host = kind === 1 ? raw.join('.') : kind === 4 ? v6() : raw.toString('latin1', 1);
    const done = Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    joinTo(client, host, request.readUInt16BE(4 + length), done, Buffer.alloc(0)).catch(() => client.destroy());
  });
}

/** Lets everything through: what the sandbox's own proxy would be without its rules. */
async function openProxy(): Promise<void> {
  const server = createServer((client) => {
    client.on('error', () => undefined);
    client.once('data', (first) => {
      if (first[0] === 5) return socks(client);
      const [, method = '', target = ''] = /^(\S+) (\S+)/.exec(first.toString('latin1')) ?? [];
      const url = new URL(method === 'CONNECT' ? `http://${target}` : target);
      const early = method === 'CONNECT' ? Buffer.alloc(0) : first;
      const said = method === 'CONNECT' ? 'HTTP/1.1 200 OK\r\n\r\n' : '';
      return joinTo(client, url.hostname, Number(url.port || 80), said, early).catch(() => client.destroy());
    });
  });
  await listening(server, 3128, '127.0.0.1');
}

/**
 * Servers and names of a network of its own, whose addresses are there already. `withProxy` opens a proxy that lets
 * everything through.
 */
export async function openTargets(withProxy: boolean): Promise<void> {
  await answerUdp('127.0.0.1', 53, answerTo);
  await answerUdp(PUBLIC, UDP_PORT, (query) => query);
  await Promise.all([
    serveHttp(PUBLIC, 80, ANSWER.public),
    serveHttp(PUBLIC, 8081, ANSWER.public),
    ...['127.0.0.1', METADATA, '::1'].map((host) => serveHttp(host, 80, ANSWER.private)),
    ...(withProxy ? [openProxy()] : []),
  ]);
}
