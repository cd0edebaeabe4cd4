import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { equalBytes } from '@countersign/merkle';
import { AwsClient } from 'aws4fetch';
import { z } from 'zod';
import { CHECKPOINT_NAME, MAX_CHECKPOINT_BYTES, otherBytes, type Place } from './place.ts';

const credentialsSchema = z.strictObject({
  accessKeyId: z.string().min(1).max(256),
  secretAccessKey: z.string().min(1).max(256),
  sessionToken: z.string().min(1).max(16_384).optional(),
});

export type S3PlaceOptions = {
  /** Address of the bucket with the prefix of every object, in path or host style. */
  readonly url: string;
  readonly region: string;
  /** JSON with `accessKeyId`, `secretAccessKey` and perhaps `sessionToken`; read again for each request, so that it may change. */
  readonly credentialsFile: string;
};

/** At most `limit` bytes of a body; undefined when it has more. */
async function bodyOf(response: Response, limit: number): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > limit) return undefined;
    chunks.push(chunk);
  }
  return new Uint8Array(Buffer.concat(chunks));
}

/** The error of a refused request; what the store says of it is not read, so that its connection is free again. */
async function failed(method: string, name: string, { status, body }: Response): Promise<Error> {
  await body?.cancel();
  return new Error(`the object store answered ${status} to ${method} \`${name}\``);
}

/** Sends one signed request. SECURITY: a redirect would take the signed headers to somebody else, so it is an error. */
async function request(
  { url, region, credentialsFile }: S3PlaceOptions,
  name: string,
  init: { method: string; body?: Uint8Array; headers?: Record<string, string>; signal: AbortSignal },
): Promise<Response> {
  const credentials = credentialsSchema.safeParse(JSON.parse(readFileSync(credentialsFile, 'utf8')));
  if (!credentials.success) throw new Error(`\`${credentialsFile}\` holds no credentials of an object store`);
  const { sessionToken, ...keys } = credentials.data;
  const client = new AwsClient({
    ...{ ...keys, ...(sessionToken === undefined ? {} : { sessionToken }) },
    ...{ service: 's3', region, retries: 0 },
  });
  const digest = createHash('sha256')
    .update(init.body ?? '')
    .digest('hex');
  const headers = { ...init.headers, 'x-amz-content-sha256': digest };
  const signed = await client.sign(`${url.replace(/\/+$/, '')}/${name}`, { ...init, headers } as RequestInit);
  return fetch(signed, { redirect: 'error', signal: init.signal });
}

/**
 * A bucket of an object store that speaks the S3 API with conditional writes (`If-None-Match`, `If-Match`). Each request
 * carries the digest of its body, which the store checks, so that half an object is not taken.
 */
export function s3Place(options: S3PlaceOptions): Place {
  let etag: string | null = null;
  return {
    takesTiles: true,
    keep: async (name, bytes, signal) => {
      const put = await request(options, name, {
        ...{ method: 'PUT', body: bytes, signal },
        headers: { 'if-none-match': '*', 'content-type': 'application/octet-stream' },
      });
      if (!put.ok && put.status !== 412) throw await failed('PUT', name, put);
      await put.body?.cancel();
      if (put.ok) return;
      const got = await request(options, name, { method: 'GET', signal });
      if (!got.ok) throw await failed('GET', name, got);
      const there = await bodyOf(got, bytes.length);
      if (!there || !equalBytes(there, bytes)) throw otherBytes(name);
    },
    checkpoint: async (signal) => {
      const got = await request(options, CHECKPOINT_NAME, { method: 'GET', signal });
      if (got.status === 404) {
        await got.body?.cancel();
        etag = null;
        return undefined;
      }
      if (!got.ok) throw await failed('GET', CHECKPOINT_NAME, got);
      const bytes = await bodyOf(got, MAX_CHECKPOINT_BYTES);
      if (!bytes) throw otherBytes(CHECKPOINT_NAME);
      etag = got.headers.get('etag');
      if (etag === null) throw new Error('the object store gave no ETag; it cannot be written to with conditions');
      return new TextDecoder().decode(bytes);
    },
    replaceCheckpoint: async (note, signal) => {
      const condition: Record<string, string> = etag === null ? { 'if-none-match': '*' } : { 'if-match': etag };
      const put = await request(options, CHECKPOINT_NAME, {
        ...{ method: 'PUT', body: new TextEncoder().encode(note), signal },
        headers: { ...condition, 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-cache' },
      });
      if (!put.ok && put.status !== 412) throw await failed('PUT', CHECKPOINT_NAME, put);
      await put.body?.cancel();
      if (put.status === 412) throw new Error('another checkpoint came between');
    },
    close: async () => undefined,
  };
}
