import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import aws4 from 'aws4';

export const STORE_KEYS = { accessKeyId: 'AKIDOBJECTSTORE', secretAccessKey: 'store/secret+key' };

/** What the store does to a request before, or instead of, taking it. */
export type Mishap = 'error' | 'forbidden' | 'hang' | 'cut' | 'taken-then-error' | undefined;

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** True when another implementation of Signature Version 4 gives the signature of the request. */
function isSigned(request: IncomingMessage, body: Buffer): boolean {
  const { authorization = '' } = request.headers;
  const names = /SignedHeaders=([^,]+)/.exec(authorization)?.[1]?.split(';') ?? [];
  const headers = Object.fromEntries(names.map((name) => [name, String(request.headers[name])]));
  if (headers['x-amz-content-sha256'] !== sha256(body)) return false;
  const expected = aws4.sign(
    {
      ...{ method: request.method ?? '', path: request.url ?? '', headers, service: 's3', region: 'us-east-1' },
      ...{
        host: String(request.headers.host),
        signQuery: false,
        doNotModifyHeaders: false,
        extraHeadersToIgnore: { 'content-length': true, 'content-type': true },
      },
      ...(body.length > 0 ? { body } : {}),
    },
    STORE_KEYS,
  );
  const signature = (text: string) => /Signature=([0-9a-f]{64})$/.exec(text)?.[1];
  return signature(String(expected.headers?.Authorization)) === signature(authorization);
}

/** A bucket that speaks the object API with conditional writes, checks every signature and digest, and misbehaves on demand. */
export async function startObjectStore() {
  const objects = new Map<string, Buffer>();
  const seen = { requests: 0, unsigned: 0, overwritten: [] as string[] };
  let mishap: (method: string, name: string) => Mishap = () => undefined;
  const put = (name: string, body: Buffer, headers: IncomingMessage['headers']): number => {
    const there = objects.get(name);
    if (headers['if-none-match'] === '*' && there) return 412;
    if (headers['if-match'] !== undefined && (!there || headers['if-match'] !== `"${sha256(there)}"`)) return 412;
    if (there && !there.equals(body) && !name.endsWith('/checkpoint')) seen.overwritten.push(name);
    objects.set(name, body);
    return 200;
  };
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    seen.requests += 1;
    const [method, name] = [request.method ?? '', request.url ?? ''];
    const what = mishap(method, name);
    if (what === 'cut') return void request.socket.destroy();
    const body = await bodyOf(request);
    if (what === 'hang') return undefined;
    if (what === 'error') return response.writeHead(500).end('<Error/>');
    if (what === 'forbidden') return response.writeHead(403).end('<Error/>');
    if (!isSigned(request, body)) {
      seen.unsigned += 1;
      return response.writeHead(403).end('<Error><Code>SignatureDoesNotMatch</Code></Error>');
    }
    if (method === 'PUT') {
      const status = put(name, body, request.headers);
      return response.writeHead(what === 'taken-then-error' ? 500 : status).end();
    }
    const found = objects.get(name);
    if (!found) return response.writeHead(404).end('<Error><Code>NoSuchKey</Code></Error>');
    return response.writeHead(200, { etag: `"${sha256(found)}"` }).end(found);
  };
  const server = createServer((request, response) => void answer(request, response).catch(() => response.destroy()));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/evidence/log`,
    objects,
    seen,
    misbehave: (by: typeof mishap) => {
      mishap = by;
    },
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
