import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer as createHttp, type Server as HttpServer } from 'node:http';
import { type AddressInfo, createServer as createTcp, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createServer as createTls } from 'node:tls';
import { EvidenceClient, type ListStreamsReply } from '@countersign/protocol';
import { grpcClient } from '@countersign/service-kit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { entry, received } from '../../test/drafts.ts';
import { type AuditProcess, useAudit } from '../../test/use-audit.ts';
import { StreamFollower } from './stream-follower.ts';

const suite = useAudit();
const folder = mkdtempSync(path.join(tmpdir(), 'countersign-streams-'));
const certificate = path.join(folder, 'cert.pem');
const key = path.join(folder, 'key.pem');
const servers: (Server | HttpServer)[] = [];

beforeAll(() => {
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
  const request = ['req', '-x509', '-newkey', 'ed25519', '-nodes', '-days', '2', '-keyout', key, '-out', certificate];
  execFileSync('openssl', [...request, ...subject], { stdio: 'ignore' });
});
afterAll(() => {
  for (const server of servers) server.close();
  rmSync(folder, { recursive: true, force: true });
});

function listening(server: Server | HttpServer): Promise<number> {
  servers.push(server);
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port)));
}

/** Messages of an RFC 5425 stream. */
function messagesOf(bytes: Buffer): string[] {
  const messages: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    const blank = bytes.indexOf(32, at);
    const length = Number(bytes.subarray(at, blank).toString());
    if (blank < 0 || blank + 1 + length > bytes.length) break;
    messages.push(bytes.subarray(blank + 1, blank + 1 + length).toString());
    at = blank + 1 + length;
  }
  return messages;
}

/** A collector that refuses the first requests and then counts the log records that it took. */
async function collector(refusals: number) {
  const seen = { requests: 0, bytes: Buffer.alloc(0) };
  const server = createHttp((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      seen.requests += 1;
      if (seen.requests <= refusals) return response.writeHead(400).end();
      seen.bytes = Buffer.concat([seen.bytes, ...chunks]);
      return response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end();
    });
  });
  return { port: await listening(server), seen };
}

const statesOf = (audit: AuditProcess) =>
  new Promise<ListStreamsReply>((resolve, reject) => {
    const client = grpcClient(EvidenceClient, `127.0.0.1:${audit.port}`);
    client.listStreams({}, (error, value) => {
      client.close();
      if (error) reject(error);
      else resolve(value);
    });
  });
const lagOf = async (audit: AuditProcess) =>
  Object.fromEntries((await statesOf(audit)).streams.map(({ name, lag }) => [name, Number(lag)]));

const indexesOf = (file: string): number[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => (JSON.parse(line) as { index: number }).index);

describe('streams of entries', () => {
  test('get every entry out, whatever other sinks do, and go on after a kill without a gap', async () => {
    let syslog = Buffer.alloc(0);
    const tls = createTls({ cert: readFileSync(certificate), key: readFileSync(key) }, (socket) => {
      socket.on('data', (chunk: Buffer) => {
        syslog = Buffer.concat([syslog, chunk]);
      });
      socket.on('error', () => undefined);
    });
    const syslogPort = await listening(tls);
    const silent = await listening(createTcp((socket) => socket.on('error', () => undefined)));
    const resets = await listening(createTcp((socket) => socket.resetAndDestroy()));
    const hanging = await listening(createHttp(() => undefined));
    const good = await collector(2);
    const syslogTo = { kind: 'syslog', host: 'localhost', caFile: certificate };
    const otlpTo = (port: number) => ({ kind: 'otlp', url: `http://127.0.0.1:${port}/v1/logs` });
    const streams = [
      { name: 'lines', to: { kind: 'file', path: path.join(folder, 'lines.ndjson') } },
      { name: 'siem', to: { kind: 'file', path: path.join(folder, 'ocsf.ndjson'), format: 'ocsf' } },
      { name: 'syslog', to: { ...syslogTo, port: syslogPort } },
      { name: 'syslog-silent', to: { ...syslogTo, port: silent } },
      { name: 'syslog-resets', to: { ...syslogTo, port: resets } },
      { name: 'otel', to: otlpTo(good.port) },
      { name: 'otel-hangs', to: otlpTo(hanging) },
      { name: 'nowhere', to: { kind: 'file', path: path.join(folder, 'missing/lines.ndjson') } },
    ];
    const audit = await suite.start({ streams });
    const answers = await Promise.all(Array.from({ length: 300 }, (_, at) => audit.append(received(`call_${at}`))));
    expect(answers.filter(({ refusal }) => refusal)).toEqual([]);
    const good4 = { lines: 0, siem: 0, syslog: 0, otel: 0 };
    await expect.poll(() => lagOf(audit), { timeout: 25_000 }).toMatchObject(good4);
    const lag = await lagOf(audit);
    for (const name of ['syslog-silent', 'syslog-resets', 'otel-hangs', 'nowhere'])
      expect([name, lag[name]]).toEqual([name, 301]);
    const { streams: states } = await statesOf(audit);
    expect(states.find(({ name }) => name === 'syslog-resets')?.problem).toMatch(/syslog server/);
    await audit.kill();
    const again = await suite.start({ streams });
    await again.append(received('call_after'));
    await expect.poll(() => lagOf(again), { timeout: 25_000 }).toMatchObject(good4);
    const indexes = indexesOf(path.join(folder, 'lines.ndjson'));
    expect([...new Set(indexes)]).toEqual(Array.from({ length: 302 }, (_, at) => at));
    const events = readFileSync(path.join(folder, 'ocsf.ndjson'), 'utf8').trim().split('\n');
    expect(events.length).toBeGreaterThanOrEqual(302);
    const messages = messagesOf(syslog);
    expect(messages.filter((text) => text.startsWith('<110>1 ')).length).toBeGreaterThanOrEqual(302);
    expect(messages.at(-1)).toContain('"call":"call_after"');
    expect(good.seen.bytes.includes('call_after')).toBe(true);
    expect(existsSync(path.join(folder, 'missing'))).toBe(false);
    expect((await suite.verified(again)).problems).toEqual([]);
  });

  test('a sink that takes too long fails, is asked again with the same entries, and keeps its place', async () => {
    const audit = await suite.start();
    await audit.append({ entries: [{ ...entry('', 'admin.changed'), stream: 'a', id: 'ent_a' }] });
    const { default: pg } = await import('pg');
    const pool = new pg.Pool({ connectionString: suite.databaseUrl });
    const seen: number[][] = [];
    const follower = new StreamFollower({
      name: 'slow',
      sink: {
        send: (entries) => {
          seen.push(entries.map((item) => item.entry.index));
          return seen.length < 3 ? new Promise(() => undefined) : Promise.resolve();
        },
        close: async () => undefined,
      },
      pool,
      size: () => 2,
      onProblem: () => undefined,
      pauseMs: [1, 2],
      sendMs: 20,
    });
    follower.follow();
    await expect.poll(() => follower.state()).toMatchObject({ next: 2, lag: 0, failures: 2, problem: '' });
    expect(seen).toEqual([
      [0, 1],
      [0, 1],
      [0, 1],
    ]);
    await follower.stop();
    await pool.end();
  });
});
