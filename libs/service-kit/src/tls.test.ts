import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client, type ServiceError, status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CertificateFiles, makeCertificates } from './embedded/index.ts';
import { type ClientTls, type GrpcServer, grpcClient, isServing, serveGrpc, serverTlsSchema } from './index.ts';
import { isLoopback } from './tls.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'countersign-tls-'));
const bytes = (value: Buffer) => value;
const ECHO = '/test.Echo/Echo';
const echo = { path: ECHO, requestStream: false, responseStream: false };
const definition = {
  echo: {
    ...echo,
    requestSerialize: bytes,
    requestDeserialize: bytes,
    responseSerialize: bytes,
    responseDeserialize: bytes,
  },
};
let members: Record<'audit' | 'gateway' | 'probe', CertificateFiles>;
let strangers: Record<'gateway', CertificateFiles>;
let server: GrpcServer;

beforeAll(async () => {
  members = await makeCertificates(path.join(folder, 'own'), ['audit', 'gateway', 'probe']);
  strangers = await makeCertificates(path.join(folder, 'other'), ['gateway']);
  server = await serveGrpc({
    services: [
      {
        definition,
        implementation: {
          echo: (call: { request: Buffer }, done: (e: null, v: Buffer) => void) => done(null, call.request),
        } as never,
      },
    ],
    host: '127.0.0.1',
    port: 0,
    tls: serverTlsSchema.parse(members.audit),
  });
  server.setServing(true);
});
afterAll(async () => {
  await server.stop(100);
  rmSync(folder, { recursive: true, force: true });
});

/** What a call as this client comes to. */
async function called(tls?: ClientTls): Promise<string> {
  const client = grpcClient(Client, `127.0.0.1:${server.port}`, tls);
  const { promise, resolve } = Promise.withResolvers<string>();
  client.makeUnaryRequest(
    ECHO,
    bytes,
    bytes,
    Buffer.from('hello'),
    { deadline: Date.now() + 5_000 },
    (error: ServiceError | null, answer?: Buffer) => resolve(error ? (status[error.code] ?? '') : String(answer)),
  );
  return promise.finally(() => client.close());
}

const as = (files: CertificateFiles, serverName = 'audit'): ClientTls => ({ ...files, serverName });

describe('a server with TLS', () => {
  test('answers the client that it names', async () => {
    expect(await called(as(members.gateway))).toBe('hello');
  });

  test('answers nobody without a certificate, with one of another authority, or with one of another name', async () => {
    expect(await called()).toBe('UNAVAILABLE');
    expect(await called({ ...as(strangers.gateway), caFile: members.gateway.caFile })).toBe('UNAVAILABLE');
    expect(await called(as(members.probe))).toBe('PERMISSION_DENIED');
    expect(await called(as(members.audit))).toBe('PERMISSION_DENIED');
  });

  test('tells its health to every member of the authority, and to nobody else', async () => {
    const address = `127.0.0.1:${server.port}`;
    expect(await isServing(address, 5_000, as(members.probe))).toBe(true);
    expect(await isServing(address, 1_000)).toBe(false);
  });

  test('is refused by a client that wants another one', async () => {
    expect(await called(as(members.gateway, 'guardian'))).toBe('UNAVAILABLE');
    expect(await called({ ...as(members.gateway), caFile: strangers.gateway.caFile })).toBe('UNAVAILABLE');
  });
});

test('without TLS nothing is listened for or spoken to beyond this machine', async () => {
  await expect(serveGrpc({ services: [], host: '0.0.0.0', port: 0 })).rejects.toThrow(/configure `tls`/);
  expect(() => grpcClient(Client, 'audit.example:443')).toThrow(/configure `tls`/);
  expect(() => grpcClient(Client, 'ipv4:127.0.0.1:1,10.0.0.1:1')).toThrow(/configure `tls`/);
  const loopback = ['127.0.0.1:1', 'localhost:1', '[::1]:1', 'ipv4:127.0.0.1:1,127.0.0.1:2', 'dns:///localhost:1'];
  expect(loopback.filter((address) => !isLoopback(address))).toEqual([]);
  const others = ['0.0.0.0:1', '127.0.0.1.example:1', '[::]:1', 'unix:/x', ''];
  expect(others.filter(isLoopback)).toEqual([]);
});

test('no file holds the key of the authority', () => {
  const certificate = readFileSync(members.audit.caFile, 'utf8');
  expect(certificate).toContain('BEGIN CERTIFICATE');
  expect(certificate).not.toContain('PRIVATE KEY');
});
