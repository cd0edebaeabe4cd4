import { createServer as createHttpServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { EgressProxy } from './egress-proxy.ts';
import { openRebindingWorld } from './testing/open-rebinding-world.ts';

type Asked = { readonly text: string; readonly socket: Socket };

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

const portOf = (server: Server): number => (server.address() as AddressInfo).port;

async function listening<S extends Server>(server: S): Promise<S> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => server.close());
  return server;
}

/** A proxy as a sandbox would meet it. */
async function openProxy(hosts: readonly string[], change: { requestMs?: number; blockPrivateNetwork?: boolean } = {}) {
  const proxy = new EgressProxy({ hosts, blockPrivateNetwork: false, ...change });
  const server = await listening(createServer({ allowHalfOpen: false, pauseOnConnect: false }));
  proxy.serve(server);
  closing.push(() => proxy.close());
  return { proxy, port: portOf(server) };
}

/** Sends bytes and reads until the proxy closes, or until `enough`. */
function ask(port: number, bytes: string | Buffer, enough: (text: string) => boolean = () => false): Promise<Asked> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    closing.push(() => socket.destroy());
    let text = '';
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk;
      if (enough(text)) resolve({ text, socket });
    });
    socket.on('error', () => undefined);
    socket.once('close', () => resolve({ text, socket }));
    socket.write(bytes);
  });
}

/** An origin that tells what reached it. */
async function origin() {
  const seen: { url: string; host: string; names: string[]; body: string }[] = [];
  const server = await listening(
    createHttpServer(async (request: IncomingMessage, response) => {
      let body = '';
      for await (const chunk of request) body += chunk;
      const names = request.rawHeaders.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase());
      seen.push({ url: request.url ?? '', host: request.headers.host ?? '', names, body });
      response.setHeader('connection', 'keep-alive, x-secret-hop').setHeader('x-secret-hop', '1');
      response.end(`ORIGIN ${request.url}`);
    }),
  );
  return { port: portOf(server), seen };
}

const authority = (port: number): string => `127.0.0.1:${port}`;
const tunnel = (target: string): string => `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`;
const statusOf = ({ text }: Asked): number => Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0);

describe('CONNECT', () => {
  it('joins a listed host and port, bytes sent early included, and logs the hop', async () => {
    const { port: echo } = await origin();
    const { proxy, port } = await openProxy([authority(echo)]);
    const early = `${tunnel(authority(echo))}GET /early HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;
    const { text } = await ask(port, early);
    expect(text).toMatch(/^HTTP\/1\.1 200 .*ORIGIN \/early/s);
    expect(proxy.log.lines()).toEqual([`connect \`${authority(echo)}\` allowed, connected to 127.0.0.1`]);
    expect(proxy.log.refusals()).toEqual([]);
  });

  it('refuses every other port and host, and tells why', async () => {
    const { port: echo } = await origin();
    const { proxy, port } = await openProxy([authority(echo), '*.example.com', 'example.org/path']);
    for (const target of [
      '127.0.0.1:1',
      'example.com:443',
      'a.example.com:8443',
      'example.org:443',
      'evilexample.com:443',
    ]) {
      expect([target, statusOf(await ask(port, tunnel(target)))]).toEqual([target, 403]);
    }
    expect(proxy.log.refusals().length).toBe(5);
  });

  it.each([
    ...['127.1', '2130706433', '0177.0.0.1', '0x7f.1', '0x7f000001', '[::1]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]'],
    ...['[64:ff9b::7f00:1]', '169.254.169.254', '100.64.0.1', '10.0.0.1', '0.0.0.0', '[fd00::1]', '[fe80::1]'],
    ...['localhost', 'LOCALHOST.', 'a.localhost', 'metadata.google.internal', 'ip6-localhost'],
  ])('refuses the private `%s`, whatever is allowed by wildcard', async (host) => {
    const { proxy, port } = await openProxy(['*']);
    expect(statusOf(await ask(port, tunnel(`${host}:443`)))).toBe(403);
    expect(proxy.log.refusals()[0]).toMatch(/private/);
  });

  it('reaches a private address only where it is listed and private networks are not blocked', async () => {
    const { port: echo } = await origin();
    const open = await openProxy([authority(echo)]);
    const blocked = await openProxy([authority(echo)], { blockPrivateNetwork: true });
    const accepted = await ask(open.port, tunnel(`0x7f.1:${echo}`), (text) => text.includes('200'));
    expect(statusOf(accepted)).toBe(200);
    expect(statusOf(await ask(blocked.port, tunnel(authority(echo))))).toBe(403);
  });

  it.each(['', 'host', 'http://host/', 'user@host:443', 'host:0', 'host:99999', 'ho st:443', '[::1', 'a:1:2'])(
    'refuses the malformed target `%s`',
    async (target) => {
      const { port } = await openProxy(['*']);
      expect([400, 403]).toContain(statusOf(await ask(port, tunnel(target))));
    },
  );
});

describe('plain HTTP', () => {
  const get = (url: string, host: string, more = ''): string => `GET ${url} HTTP/1.1\r\nHost: ${host}\r\n${more}\r\n`;

  it('passes a request on in origin form without hop-by-hop headers, in both directions', async () => {
    const { port: echo, seen } = await origin();
    const { port } = await openProxy([authority(echo)]);
    const more =
      'Proxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\nConnection: x-mine\r\nX-Mine: 1\r\nX-Kept: 1\r\n';
    const { text } = await ask(port, get(`http://${authority(echo)}/a?b=c`, authority(echo), more));
    expect(text).toContain('ORIGIN /a?b=c');
    expect(text.toLowerCase()).not.toContain('x-secret-hop: 1');
    expect(seen).toEqual([{ url: '/a?b=c', host: authority(echo), names: ['host', 'x-kept', 'connection'], body: '' }]);
  });

  it('passes bodies on, with a length and in chunks', async () => {
    const { port: echo, seen } = await origin();
    const { port } = await openProxy([authority(echo)]);
    const head = `POST http://${authority(echo)}/ HTTP/1.1\r\nHost: ${authority(echo)}\r\n`;
    await ask(port, `${head}Content-Length: 5\r\n\r\nhello`);
    await ask(port, `${head}Transfer-Encoding: chunked\r\n\r\n3\r\nfoo\r\n3\r\nbar\r\n0\r\n\r\n`);
    expect(seen.map(({ body }) => body)).toEqual(['hello', 'foobar']);
  });

  it('answers a request whose Host names another place with 400 and asks nobody', async () => {
    const { port: echo, seen } = await origin();
    const { proxy, port } = await openProxy([authority(echo), 'evil.example']);
    for (const host of ['evil.example', `127.0.0.1:${echo + 1}`, '127.0.0.1']) {
      expect(statusOf(await ask(port, get(`http://${authority(echo)}/`, host)))).toBe(400);
    }
    expect(seen).toEqual([]);
    expect(proxy.log.refusals()).toEqual([`network: \`${authority(echo)}\` does not agree with the one Host header`]);
  });

  it.each(['/relative', 'https://127.0.0.1/', 'ftp://127.0.0.1/', 'http://user:pass@127.0.0.1/', 'http:///x', '*'])(
    'answers 400 to the target `%s`',
    async (url) => {
      const { port } = await openProxy(['*', '127.0.0.1']);
      expect(statusOf(await ask(port, get(url, '127.0.0.1')))).toBe(400);
    },
  );

  it('lets no second request ride on a judged one', async () => {
    const { port: echo, seen } = await origin();
    const { port } = await openProxy([authority(echo)]);
    const first = get(`http://${authority(echo)}/first`, authority(echo));
    const { text } = await ask(port, first + get('http://169.254.169.254/second', '169.254.169.254'));
    expect(text.match(/HTTP\/1\.1/g)?.length).toBe(1);
    expect(seen.map(({ url }) => url)).toEqual(['/first']);
  });

  it.each<[string, string]>([
    [
      'a length and chunks',
      'Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET http://x/ HTTP/1.1\r\n\r\n',
    ],
    ['two lengths', 'Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde'],
    ['a folded header', 'X-A: 1\r\n  folded: 2\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n'],
    ['a space before the colon', 'Content-Length : 4\r\n\r\nabcd'],
    ['a bare carriage return', 'X-A: 1\rContent-Length: 4\r\n\r\nabcd'],
    ['an unknown coding', 'Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n'],
    ['a second Host', 'Host: evil.example\r\n\r\n'],
  ])('does not pass on %s', async (_, rest) => {
    const { port: echo, seen } = await origin();
    const { port } = await openProxy([authority(echo)]);
    const answer = await ask(port, `POST http://${authority(echo)}/ HTTP/1.1\r\nHost: ${authority(echo)}\r\n${rest}`);
    expect(statusOf(answer)).toBe(400);
    expect(seen).toEqual([]);
  });

  it('bounds headers', async () => {
    const { port } = await openProxy(['*']);
    const answer = await ask(port, get('http://x/', 'x', `X-Long: ${'a'.repeat(40_000)}\r\n`));
    expect([0, 400, 431]).toContain(statusOf(answer));
    expect(answer.text).not.toContain('200');
  });

  it('answers 502 to an origin that speaks no HTTP', async () => {
    const server = await listening(createServer((socket) => socket.end('SSH-2.0-x\r\n')));
    const { port } = await openProxy([authority(portOf(server))]);
    const target = authority(portOf(server));
    expect(statusOf(await ask(port, get(`http://${target}/`, target)))).toBe(502);
  });
});

describe('SOCKS5', () => {
  const request = (kind: number, address: Buffer, port: number, command = 1): Buffer =>
    Buffer.concat([Buffer.from([5, 1, 0, 5, command, 0, kind]), address, Buffer.from([port >> 8, port & 255])]);
  const name = (text: string): Buffer => Buffer.from([text.length, ...Buffer.from(text, 'latin1')]);
  const codeOf = ({ text }: Asked): number | undefined => Buffer.from(text, 'latin1')[3];

  it('joins a listed address', async () => {
    const { port: echo } = await origin();
    const { port } = await openProxy([authority(echo)]);
    const greeting = request(1, Buffer.from([127, 0, 0, 1]), echo);
    const { text, socket } = await ask(port, greeting, (text) => text.length >= 12);
    expect(Buffer.from(text, 'latin1').subarray(0, 4)).toEqual(Buffer.from([5, 0, 5, 0]));
    const answered = new Promise<string>((resolve) => socket.once('data', (chunk) => resolve(String(chunk))));
    socket.write('GET /socks HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    expect(await answered).toContain('ORIGIN /socks');
  });

  it.each<[string, number, Buffer]>([
    ['a private IPv4 address', 1, Buffer.from([10, 0, 0, 1])],
    ['loopback of IPv6', 4, Buffer.from([...Array(15).fill(0), 1])],
    ['a mapped address', 4, Buffer.from([...Array(10).fill(0), 255, 255, 169, 254, 169, 254])],
    ['a private name', 3, name('localhost.')],
    ['a name with a zero byte', 3, name('a.example\0.com')],
    ['an address spelt as a name', 3, name('0x7f.1')],
  ])('does not join %s', async (_, kind, address) => {
    const { port } = await openProxy(['*']);
    expect(codeOf(await ask(port, request(kind, address, 443)))).toBe(2);
  });

  it('passes connections on and nothing else', async () => {
    const { port } = await openProxy(['*']);
    for (const command of [2, 3, 9])
      expect(codeOf(await ask(port, request(1, Buffer.from([1, 1, 1, 1]), 53, command)))).toBe(7);
    const { text } = await ask(port, Buffer.from([5, 1, 2]));
    expect(Buffer.from(text, 'latin1')).toEqual(Buffer.from([5, 255]));
    expect((await ask(port, Buffer.from([5, 1, 0, 5, 1, 0, 9, 1, 2, 3]))).text.length).toBe(2);
  });
});

describe('patience', () => {
  it.each(['', 'GET http://x/ HTTP/1.1\r\n', '\u0005'])(
    'ends with a peer that says too little: `%j`',
    async (start) => {
      const { port } = await openProxy(['*'], { requestMs: 300 });
      const socket = connect(port, '127.0.0.1');
      const ended = new Promise((resolve) => socket.once('close', resolve));
      socket
        .on('error', () => undefined)
        .resume()
        .write(start);
      const drip = setInterval(() => socket.write('x'), 40);
      await ended;
      clearInterval(drip);
    },
  );

  it('takes 256 connections at once and no more', async () => {
    const { proxy, port } = await openProxy(['*']);
    const sockets = Array.from({ length: 300 }, () =>
      connect(port, '127.0.0.1')
        .on('error', () => undefined)
        .resume(),
    );
    closing.push(() => sockets.map((socket) => socket.destroy()));
    await expect.poll(() => sockets.filter((socket) => socket.destroyed).length).toBe(44);
    expect(proxy.log.refusals()).toEqual(['network: `:0` more than 256 connections at once']);
  });
});

describe('names', () => {
  it('are connected to at the checked address, looked up once at every hop, and refused when any address is private', async () => {
    expect(await openRebindingWorld()).toEqual({
      rebinding: { first: 'PUBLIC', second: 403, queries: 2 },
      mixed: 403,
      mapped: 403,
      unknown: 403,
      redirected: [302, 403],
      punycode: 'PUBLIC',
      pages: {
        rebinding: ['PUBLIC', '`page.example` resolves to the private address 127.0.0.1', 2],
        rebindingHop: ['PUBLIC', expect.stringMatching(/^`hop\.example` resolves to the private address 127\.0\.0\.1/)],
        metadataHop: expect.stringMatching(/^`169\.254\.169\.254` is a private address \(a redirect led there/),
        names: [
          '`127.0.0.1.nip.example` resolves to the private address 127.0.0.1',
          '`metadata.google.internal` is a private name',
        ],
      },
    });
  });
});
