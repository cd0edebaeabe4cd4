import { createSocket } from 'node:dgram';
import { Resolver } from 'node:dns/promises';
import { createServer as createHttpServer, request } from 'node:http';
import { createServer } from 'node:net';
import { fetchPage } from '../../web/fetch-page.ts';
import { EgressLog } from '../egress-log.ts';
import { EgressProxy } from '../egress-proxy.ts';

const PUBLIC = '93.184.216.34';
const DNS_PORT = 5_353;

/** Answers of each name, one list for each query; the last one stays. */
const ZONE: Readonly<Record<string, readonly (readonly string[])[]>> = {
  'rebind.example': [[PUBLIC], ['127.0.0.1']],
  'mixed.example': [[PUBLIC, '127.0.0.1']],
  'mapped.example': [['169.254.169.254']],
  'redirect.example': [[PUBLIC]],
  'page.example': [[PUBLIC], ['127.0.0.1']],
  'hop.example': [[PUBLIC], ['127.0.0.1']],
  '127.0.0.1.nip.example': [['127.0.0.1']],
  'metadata.google.internal': [['169.254.169.254']],
  'xn--bcher-kva.example': [[PUBLIC]],
};
const queries = new Map<string, number>();

function nameOf(query: Buffer): { name: string; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), end: at + 5 };
}

function answerTo(query: Buffer): Buffer {
  const { name, end } = nameOf(query);
  const isA = query.readUInt16BE(end - 4) === 1;
  const count = queries.get(name) ?? 0;
  if (isA) queries.set(name, count + 1);
  const lists = ZONE[name] ?? [];
  const addresses = isA ? (lists[Math.min(count, lists.length - 1)] ?? []) : [];
  const head = Buffer.from(query.subarray(0, 12));
  head.writeUInt16BE(addresses.length > 0 ? 0x8180 : 0x8183, 2);
  head.writeUInt16BE(addresses.length, 6);
  head.writeUInt32BE(0, 8);
  const records = addresses.map((text) =>
    Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...text.split('.').map(Number)]),
  );
  return Buffer.concat([head, query.subarray(12, end), ...records]);
}

async function serveHttp(host: string, text: string): Promise<void> {
  const server = createHttpServer((incoming, response) => {
    const away = { '/redirect': 'http://169.254.169.254/', '/hop': 'http://hop.example/' }[incoming.url ?? ''];
    if (away) response.writeHead(302, { location: away });
    response.end(text);
  });
  await new Promise<void>((resolve) => server.listen(80, host, resolve));
}

const resolver = new Resolver();
resolver.setServers([`127.0.0.1:${DNS_PORT}`]);
const resolve = (host: string) => resolver.resolve4(host);

async function openProxy(): Promise<number> {
  const proxy = new EgressProxy({
    hosts: ['*.example'],
    blockPrivateNetwork: true,
    resolve,
  });
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  proxy.serve(server);
  const address = server.address();
  return typeof address === 'object' && address ? address.port : 0;
}

/** Body of a 200, else the status. */
function fetchThrough(port: number, url: string): Promise<string | number> {
  return new Promise((resolve, reject) => {
    const headers = { host: new URL(url).host };
    const outgoing = request({ host: '127.0.0.1', port, path: url, headers, agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      response.once('end', () => resolve(response.statusCode === 200 ? text : (response.statusCode ?? 0)));
    });
    outgoing.once('error', reject).end();
  });
}

/** Text of a page, or why there is none. */
async function page(url: string): Promise<string> {
  const bounds = { hosts: ['*'], blockPrivateNetwork: false, timeoutMs: 10_000, log: new EgressLog() };
  const answer = await fetchPage({ url, ...bounds, signal: new AbortController().signal, resolve });
  return answer.ok ? Buffer.from(answer.value.body).toString('utf8') : answer.error.message;
}

const dns = createSocket('udp4');
dns.on('message', (query, from) => dns.send(answerTo(query), from.port, from.address));
await new Promise<void>((resolve) => dns.bind(DNS_PORT, '127.0.0.1', resolve));
await serveHttp(PUBLIC, 'PUBLIC');
await serveHttp('127.0.0.1', 'PRIVATE');
const port = await openProxy();
const get = (url: string) => fetchThrough(port, url);

const first = await get('http://rebind.example/');
const second = await get('http://rebind.example/');
const found = {
  rebinding: { first, second, queries: queries.get('rebind.example') },
  mixed: await get('http://mixed.example/'),
  mapped: await get('http://mapped.example/'),
  unknown: await get('http://unknown.example/'),
  redirected: [await get('http://redirect.example/redirect'), await get('http://169.254.169.254/')],
  punycode: await get('http://xn--bcher-kva.example/'),
  pages: {
    rebinding: [await page('http://page.example/'), await page('http://page.example/'), queries.get('page.example')],
    rebindingHop: [await page('http://redirect.example/hop'), await page('http://redirect.example/hop')],
    metadataHop: await page('http://redirect.example/redirect'),
    names: [await page('http://127.0.0.1.nip.example/'), await page('http://metadata.google.internal/')],
  },
};
process.stdout.write(JSON.stringify(found));
process.exit(0);
