import { createHmac, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createLogger, type NatsConnection } from '@countersign/service-kit';
import { useNats } from '@countersign/testing';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { SMTPServer } from 'smtp-server';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Channel, channelsSchema } from './channel.ts';
import type { Notice } from './notice.ts';
import { Notifier } from './notifier.ts';

const nats = useNats({ configText: 'authorization { users: [ { user: gateway, password: gateway } ] }' });
const folder = mkdtempSync(path.join(tmpdir(), 'countersign-notify-'));
const secret = `whsec_${randomBytes(24).toString('base64')}`;
const secretFile = path.join(folder, 'secret');
writeFileSync(secretFile, `${secret}\n`, { mode: 0o600 });

type Received = { readonly headers: IncomingMessage['headers']; readonly body: string };

let received: Received[];
let answer: (response: ServerResponse, attempt: number) => void;
let server: Server;
let url: string;
let connection: NatsConnection;
const started: Notifier[] = [];

beforeEach(async () => {
  received = [];
  answer = (response) => response.end('ok');
  server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on('end', () => {
      received.push({ headers: request.headers, body });
      answer(response, received.length);
    });
  });
  const { promise, resolve } = Promise.withResolvers<void>();
  server.listen(0, '127.0.0.1', () => resolve());
  await promise;
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  connection = await connect({ servers: nats().url, user: 'gateway', pass: 'gateway' });
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

afterEach(async () => {
  server.closeAllConnections();
  for (const notifier of started.splice(0)) await notifier.stop();
  const manager = await jetstreamManager(connection);
  for (const stream of ['NOTICES', 'DEAD_NOTICES']) await manager.streams.delete(stream).catch(() => false);
  await connection.close();
  server.close();
});

async function notifierOf(channels: object[], backoffMs: readonly number[] = [20, 20, 20]): Promise<Notifier> {
  const notifier = new Notifier({
    channels: channelsSchema.parse(channels) as Channel[],
    jetstream: jetstream(connection),
    manager: await jetstreamManager(connection),
    now: Date.now,
    logger: createLogger({ name: 'test', level: 'silent' }),
    backoffMs,
  });
  started.push(notifier);
  await notifier.start();
  return notifier;
}

const notice = (over: Partial<Notice['data']> = {}): Notice => ({
  id: `call_${randomBytes(6).toString('hex')}.requested`,
  type: 'approval.requested',
  timestamp: '2026-01-02T03:04:05.000Z',
  data: {
    call: 'call_1',
    state: 'pending',
    agent: 'builder',
    host: 'local',
    session: 'ses_1',
    tool: 'bash',
    action: 'execute',
    summary: 'rm -rf build <!channel> *bold* [x](https://evil.example)',
    deadline: '2026-01-02T04:04:05.000Z',
    decided_by: '',
    reason: '',
    url: 'https://desk.example/calls/call_1',
    ...over,
  },
});
const standard = (over: object = {}) => ({ id: 'ops', kind: 'webhook', url, secretFile, ...over });
const dead = async (notifier: Notifier) => (await notifier.dead(10)).map(({ channel, why }) => [channel, why]);

describe('webhooks', () => {
  test('a standard notice is signed so that its receiver can verify it, and holds no token', async () => {
    const sent = notice();
    await (await notifierOf([standard()])).tell('default', sent);
    await expect.poll(() => received.length).toBe(1);
    const { headers, body } = received[0] as Received;
    expect(JSON.parse(body)).toEqual(sent);
    const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
    const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
    expect(headers['webhook-signature']).toBe(`v1,${createHmac('sha256', key).update(signed).digest('base64')}`);
    expect(body).not.toMatch(/token/i);
  });

  test.each([
    ['a reset', (response: ServerResponse) => response.destroy()],
    ['500', (response: ServerResponse) => response.writeHead(500).end()],
    ['429 with Retry-After', (response: ServerResponse) => response.writeHead(429, { 'retry-after': '0' }).end()],
    ['half an answer', (response: ServerResponse) => response.writeHead(503, { 'content-length': '10' }).write('a')],
  ])('%s is answered with another attempt, and the notice arrives once it can', async (_name, misbehave) => {
    answer = (response, attempt) => (attempt < 3 ? misbehave(response) : response.end());
    await (await notifierOf([standard()])).tell('default', notice());
    await expect.poll(() => received.length, { timeout: 10_000 }).toBe(3);
    expect(new Set(received.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
  });

  test.each([
    ['410', 410, 'the receiver answered 410: it wants no more'],
    ['a redirect', 302, 'the receiver redirects (302); configure its final address'],
    ['400', 400, 'the receiver answered 400'],
  ])('%s is not repeated; the notice is kept as given up and can be replayed', async (_name, status, why) => {
    answer = (response, attempt) =>
      attempt === 1 ? response.writeHead(status, { location: `${url}/other` }).end() : response.end();
    const notifier = await notifierOf([standard()]);
    await notifier.tell('default', notice());
    await expect.poll(() => dead(notifier)).toEqual([['ops', why]]);
    expect(received.length).toBe(1);
    const seq = (await notifier.dead(10))[0]?.seq ?? 0;
    expect([await notifier.replay(seq), await notifier.replay(seq)]).toEqual([true, false]);
    await expect.poll(() => received.length).toBe(2);
    expect(await dead(notifier)).toEqual([]);
  });

  test('a receiver that never works ends with the notice kept as given up', async () => {
    answer = (response) => response.writeHead(500).end();
    const notifier = await notifierOf([standard()]);
    await notifier.tell('default', notice());
    await expect.poll(() => dead(notifier), { timeout: 10_000 }).toEqual([['ops', 'the receiver answered 500']]);
    expect(received.length).toBe(4);
  });

  test('the same notice from two gateways is sent once, and a hanging channel delays no other', async () => {
    const { promise: never } = Promise.withResolvers<void>();
    answer = (response) => (received.at(-1)?.headers['webhook-id'] === undefined ? void never : response.end());
    const channels = [{ id: 'hung', kind: 'webhook', template: 'slack', url }, standard()];
    const [one, two] = [await notifierOf(channels), await notifierOf(channels)];
    const sent = notice();
    await Promise.all([one.tell('default', sent), two.tell('default', sent)]);
    await expect.poll(() => received.filter(({ headers }) => headers['webhook-id']).length).toBe(1);
    expect(received.filter(({ headers }) => headers['webhook-id'] === undefined).length).toBeLessThanOrEqual(1);
  });

  test('a notice waits on disk while no gateway runs', async () => {
    const first = await notifierOf([standard()]);
    await first.stop();
    await first.tell('default', notice());
    expect(received).toEqual([]);
    await notifierOf([standard()]);
    await expect.poll(() => received.length).toBe(1);
  });

  test('a channel is told about its queues only', async () => {
    const notifier = await notifierOf([standard({ queues: ['prod'] }), standard({ id: 'all' })]);
    await notifier.tell('default', notice());
    await notifier.tell('prod', notice());
    await expect.poll(() => received.length).toBe(3);
  });
});

describe('templates', () => {
  const bodyOf = async (template: string): Promise<string> => {
    answer = (response) => response.end('{"code":0}');
    const channel = { id: 'team', kind: 'webhook', template, url };
    await (await notifierOf([channel])).tell('default', notice());
    await expect.poll(() => received.length).toBe(1);
    return received[0]?.body ?? '';
  };

  test('slack shows hostile text as plain text that mentions nobody', async () => {
    const { blocks } = JSON.parse(await bodyOf('slack')) as { blocks: { text?: { type: string; text: string } }[] };
    expect(blocks[1]?.text).toEqual({ type: 'plain_text', text: notice().data.summary, emoji: false });
    expect(JSON.stringify(blocks)).not.toContain('mrkdwn');
  });

  test('teams shows hostile text with its Markdown escaped', async () => {
    const body = await bodyOf('teams');
    expect(body).toContain(String.raw`\\*bold\\* \\[x\\]\\(https://evil\\.example\\)`);
  });

  test('feishu gets a card, and a refusal inside its 200 counts as a failure', async () => {
    expect(JSON.parse(await bodyOf('feishu'))).toMatchObject({ msg_type: 'interactive' });
    answer = (response) => response.end('{"code":19024}');
    const notifier = await notifierOf([{ id: 'robot', kind: 'webhook', template: 'feishu', url }], []);
    await notifier.tell('default', notice());
    await expect.poll(() => dead(notifier)).toEqual([['robot', 'the robot answered code 19024']]);
  });
});

describe('e-mail', () => {
  const mailServer = async (refuse: boolean) => {
    const mails: string[] = [];
    const smtp = new SMTPServer({
      authOptional: true,
      hideSTARTTLS: true,
      onData: (stream, _session, done) => {
        let text = '';
        stream.on('data', (chunk: Buffer) => {
          text += chunk.toString();
        });
        stream.on('end', () => {
          mails.push(text);
          done(refuse ? Object.assign(new Error('no'), { responseCode: 550 }) : null);
        });
      },
    });
    const { promise, resolve } = Promise.withResolvers<void>();
    smtp.listen(0, '127.0.0.1', () => resolve());
    await promise;
    return { smtp, mails, port: (smtp.server.address() as AddressInfo).port };
  };
  const mail = (port: number, over: object = {}) => ({
    id: 'mail',
    kind: 'email',
    host: '127.0.0.1',
    port,
    security: 'none',
    from: 'desk@example.com',
    to: ['on-call@example.com'],
    ...over,
  });

  test('a waiting call is mailed as plain text with a link that leads to a login', async () => {
    const { smtp, mails, port } = await mailServer(false);
    await (await notifierOf([mail(port)])).tell('default', notice({ host: 'web-1\r\nBcc: all@example.com' }));
    await expect.poll(() => mails.length).toBe(1);
    smtp.close();
    expect(mails[0]).toContain('Sign in to decide: https://desk.example/calls/call_1');
    expect(mails[0]).not.toMatch(/^Bcc:/m);
  });

  test('a refused mail and a server without TLS are given up or repeated, never sent in the clear', async () => {
    const { smtp, mails, port } = await mailServer(true);
    const notifier = await notifierOf([mail(port), mail(port, { id: 'tls', security: 'starttls' })], []);
    await notifier.tell('default', notice());
    await expect.poll(async () => (await dead(notifier)).length).toBe(2);
    smtp.close();
    expect(new Map((await dead(notifier)) as [string, string][]).get('mail')).toBe('the mail server answered 550');
    expect(mails.length).toBe(1);
  });
});

test.each([
  ['plain http to another machine', { id: 'a', kind: 'webhook', template: 'slack', url: 'http://hooks.example/x' }],
  ['user info in the address', { id: 'a', kind: 'webhook', template: 'slack', url: 'https://u:p@hooks.example/x' }],
  ['an unsigned standard webhook', { id: 'a', kind: 'webhook', url: 'https://hooks.example/x' }],
  [
    'mail in the clear',
    { id: 'a', kind: 'email', host: 'mx.example', security: 'none', from: 'a@b.co', to: ['a@b.co'] },
  ],
  ['an id that is no subject token', { id: 'a.>', kind: 'webhook', template: 'slack', url: 'https://hooks.example/x' }],
])('%s is refused in the configuration', (_name, channel) => {
  expect(channelsSchema.safeParse([channel]).success).toBe(false);
});
