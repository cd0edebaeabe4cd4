import { parseIJson } from '@countersign/protocol';
import { malformed, misconfigured, type ProviderFault } from './provider.ts';

/** Longest answer of an endpoint that is read; a verdict needs a few hundred bytes. */
export const MAX_ANSWER_BYTES = 256 * 1024;

const MAX_RETRY_AFTER_MS = 3_600_000;

/** Carries a fault through an SDK, which knows errors only. */
class RefusedAnswer extends Error {
  readonly fault: ProviderFault;

  constructor(fault: ProviderFault) {
    super('answer refused');
    this.name = 'RefusedAnswer';
    this.fault = fault;
  }
}

/** Milliseconds of a Retry-After header in seconds or as a date; undefined when it says neither. */
export function retryAfterMs(header: string | null, nowMs: number): number | undefined {
  if (header === null) return undefined;
  const seconds = /^\d{1,9}$/.test(header.trim()) ? Number(header) * 1_000 : Date.parse(header) - nowMs;
  return Number.isFinite(seconds) ? Math.min(Math.max(seconds, 0), MAX_RETRY_AFTER_MS) : undefined;
}

function faultOfStatus(response: Response): ProviderFault | undefined {
  const { status } = response;
  if (status === 200) return undefined;
  if (status === 400)
    return misconfigured('endpoint refused the request with status 400; it may accept only streamed requests');
  if (status === 401 || status === 403) return misconfigured(`endpoint refused the key with status ${status}`);
  if (status === 404) return misconfigured('endpoint answered status 404; it has no such model or path');
  if (status === 408 || status === 409 || status === 429 || status >= 500) {
    const wait = retryAfterMs(response.headers.get('retry-after'), Date.now());
    return {
      category: 'unavailable',
      reason: `endpoint answered status ${status}`,
      transport: true,
      ...(wait === undefined ? {} : { retryAfterMs: wait }),
    };
  }
  return misconfigured(`endpoint answered status ${status}`);
}

function faultOfType(response: Response): ProviderFault | undefined {
  const type = (response.headers.get('content-type') ?? '').split(';')[0]?.trim().toLowerCase();
  if (type === 'application/json') return undefined;
  if (type === 'text/event-stream') return misconfigured('endpoint streams its answer although it was asked not to');
  return malformed('answer is not of type `application/json`');
}

async function readBounded(response: Response): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > MAX_ANSWER_BYTES) throw new RefusedAnswer(malformed(`answer is longer than ${MAX_ANSWER_BYTES} bytes`));
    chunks.push(chunk);
  }
  return new Uint8Array(Buffer.concat(chunks));
}

async function exchange(input: string | URL | Request, init: RequestInit | undefined): Promise<Response> {
  // SECURITY: a redirect would carry the prompt and the key to an address nobody configured.
  const response = await fetch(input, { ...init, redirect: 'manual' });
  const fault = faultOfStatus(response) ?? faultOfType(response);
  if (fault) {
    await response.body?.cancel().catch(() => undefined);
    throw new RefusedAnswer(fault);
  }
  const body = await readBounded(response);
  // SECURITY: two `content` keys in one answer would be read differently by different parsers.
  if (!parseIJson(body).ok) throw new RefusedAnswer(malformed('answer is not one JSON value without duplicate keys'));
  return new Response(body, { status: 200, headers: { 'content-type': 'application/json' } });
}

/** A `fetch` for one SDK call, and what went wrong in it. */
export type BoundedFetch = { readonly fetch: typeof fetch; readonly fault: () => ProviderFault | undefined };

/**
 * A `fetch` that follows no redirect, reads at most MAX_ANSWER_BYTES, and lets only complete JSON of status 200 through.
 * Anything else rejects, and `fault` then says why.
 */
export function boundedFetch(signal: AbortSignal): BoundedFetch {
  let fault: ProviderFault | undefined;
  const guarded: typeof fetch = async (input, init) => {
    try {
      return await exchange(input, init);
    } catch (error) {
      fault = faultOf(error, signal);
      throw error;
    }
  };
  return { fetch: guarded, fault: () => fault };
}

/** What an error of an exchange means. */
export function faultOf(error: unknown, signal: AbortSignal): ProviderFault {
  if (error instanceof RefusedAnswer) return error.fault;
  if (signal.aborted) return { category: 'timed_out', reason: 'the answer did not come in time', transport: false };
  return { category: 'unavailable', reason: 'connection to the endpoint failed', transport: true };
}
