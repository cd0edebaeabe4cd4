import { setTimeout as delay } from 'node:timers/promises';
import { err, FaultError, ok, type Result } from '@countersign/kernel';
import { z } from 'zod';

/** A refusal of the gateway, as Problem Details (RFC 9457). */
export type Problem = {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly winner?: string;
};

const problemSchema = z.looseObject({
  title: z.string().optional(),
  detail: z.string().optional(),
  code: z.string().optional(),
  winner: z.string().optional(),
});

const callSchema = z.looseObject({
  callId: z.string(),
  agent: z.string(),
  sessionId: z.string(),
  host: z.string(),
  tool: z.string(),
  action: z.string(),
  summary: z.string(),
  state: z.string(),
  decidedBy: z.string().nullish(),
  decidedByName: z.string().nullish(),
  reason: z.string().nullish(),
});
const callDetailSchema = callSchema.extend({
  arguments: z.string().nullish(),
  view: z.unknown(),
  viewDigest: z.string().nullish(),
});

export type CallSummary = z.infer<typeof callSchema>;
export type CallDetail = z.infer<typeof callDetailSchema>;

const hostSchema = z.looseObject({
  host: z.string().optional(),
  id: z.string().optional(),
  ready: z.boolean().optional(),
  reason: z.string().nullish(),
});
const sideSchema = z.looseObject({ digest: z.string(), size: z.number() }).nullable();
const changeSchema = z.looseObject({
  change: z.string(),
  callId: z.string(),
  agent: z.string(),
  host: z.string(),
  tool: z.string(),
  path: z.string(),
  state: z.string(),
  before: sideSchema,
  after: sideSchema,
  diff: z.string().optional(),
});
export type FileChangeView = z.infer<typeof changeSchema>;

const rollbackSchema = z.looseObject({ callId: z.string(), state: z.string(), reason: z.string() });

export type HostStatus = z.infer<typeof hostSchema>;

type Answer<T> = Promise<Result<T, Problem>>;

/** The gateway's HTTP interface, as one token may use it. Expected refusals are values; no answer is a FaultError. */
export type GatewayClient = {
  readonly isReady: () => Promise<boolean>;
  readonly join: (member: object) => Answer<unknown>;
  readonly hosts: () => Answer<readonly HostStatus[]>;
  readonly loginPath: () => Answer<string>;
  readonly calls: (query: { state?: string; limit?: number }) => Answer<readonly CallSummary[]>;
  readonly callById: (callId: string) => Answer<CallDetail>;
  readonly decide: (callId: string, decision: Decision) => Answer<{ readonly state: string }>;
  readonly cancel: (callId: string, reason: string) => Answer<unknown>;
  /** Any other request with a JSON answer. */
  readonly request: <T>(method: string, path: string, schema: z.ZodType<T>, body?: object) => Answer<T>;
  readonly changes: (query: { state?: string; limit?: number }) => Answer<readonly FileChangeView[]>;
  /** The change that a call made. */
  readonly changeOf: (callId: string) => Answer<FileChangeView>;
  readonly reviewChange: (callId: string) => Answer<{ readonly state: string }>;
  /** Submits the rollback; the answer is the call that is decided on. */
  readonly rollback: (callId: string, force: boolean) => Answer<z.infer<typeof rollbackSchema>>;
  /** The export as NDJSON text. */
  readonly exportLog: () => Answer<string>;
  /** The same as bytes, for logs of any size; ends when the gateway has sent all. */
  readonly exportStream: () => Answer<AsyncIterable<Uint8Array>>;
  /** Any JSON answer below `/v1/audit`. */
  readonly audit: (path: string, change?: { method: 'PUT' | 'POST'; body: object }) => Answer<unknown>;
  /** Any text or stream below `/v1/audit`, with the cursor of the next page. */
  readonly auditStream: (path: string) => Answer<{ readonly body: AsyncIterable<Uint8Array>; readonly next: string }>;
};

export type Decision = {
  readonly answer: 'approve' | 'deny';
  readonly viewDigest: string;
  readonly reason?: string;
  /** How long an approval holds; more than `once` needs an offer of the call. */
  readonly remember?: 'once' | 'session' | 'always';
  readonly narrow?: { readonly hosts?: string[]; readonly timeoutMs?: number; readonly readOnlyPaths?: string[] };
  readonly grantMs?: number;
};

const REQUEST_TIMEOUT_MS = 30_000;
/** Ten million entries at 3,000 a second. */
const EXPORT_TIMEOUT_MS = 3_600_000;

async function problemOf(response: Response): Promise<Problem> {
  const body = problemSchema.safeParse(await response.json().catch(() => ({})));
  const { title, detail, code, winner } = body.success ? body.data : {};
  return {
    status: response.status,
    code: code ?? 'countersign.gateway.internal',
    detail: detail ?? title ?? `the gateway answered ${response.status}`,
    ...(winner === undefined ? {} : { winner }),
  };
}

type Send = (method: string, path: string, body?: object, timeoutMs?: number) => Promise<Response>;

function sender(base: string, token: string): Send {
  return async (method, path, body, timeoutMs = REQUEST_TIMEOUT_MS) => {
    const headers = { authorization: `Bearer ${token}`, ...(body ? { 'content-type': 'application/json' } : {}) };
    const signal = AbortSignal.timeout(timeoutMs);
    try {
      return await fetch(new URL(path, base), {
        method,
        headers,
        signal,
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
    } catch (cause) {
      throw new FaultError(`the gateway at ${base} does not answer; run \`countersign doctor\``, {
        code: 'countersign.cli.gateway_unreachable',
        retryable: true,
        cause,
      });
    }
  };
}

async function answered<T>(response: Response, schema: z.ZodType<T>): Answer<T> {
  if (!response.ok) return err(await problemOf(response));
  const text = await response.text();
  const parsed = schema.safeParse(text === '' ? {} : JSON.parse(text));
  if (parsed.success) return ok(parsed.data);
  const fields = parsed.error.issues.map((issue) => issue.path.join('.')).join(', ');
  throw new FaultError(`the gateway's answer has an unexpected form: ${fields}`, {
    code: 'countersign.cli.bad_answer',
  });
}

const map = <T, U>(result: Result<T, Problem>, change: (value: T) => U): Result<U, Problem> =>
  result.ok ? ok(change(result.value)) : result;

/** A client for the gateway at `base` (`http://host:port`). */
export function gatewayClient(base: string, token: string): GatewayClient {
  const send = sender(base, token);
  const call = (callId: string, rest = '') => `/v1/calls/${encodeURIComponent(callId)}${rest}`;
  return {
    isReady: () =>
      send('GET', '/readyz').then(
        ({ ok: ready }) => ready,
        () => false,
      ),
    join: async (member) => answered(await send('POST', '/v1/members', member), z.unknown()),
    hosts: async () =>
      map(
        await answered(await send('GET', '/v1/hosts'), z.object({ hosts: z.array(hostSchema) })),
        ({ hosts }) => hosts,
      ),
    loginPath: async () =>
      map(
        await answered(await send('POST', '/v1/login-links', {}), z.object({ path: z.string() })),
        (link) => link.path,
      ),
    calls: async ({ state, limit }) => {
      const query = new URLSearchParams({ ...(state ? { state } : {}), limit: String(limit ?? 100) });
      const schema = z.object({ calls: z.array(callSchema) });
      return map(await answered(await send('GET', `/v1/calls?${query}`), schema), ({ calls }) => calls);
    },
    callById: async (callId) => answered(await send('GET', call(callId)), callDetailSchema),
    decide: async (callId, decision) =>
      answered(await send('POST', call(callId, '/decision'), decision), z.looseObject({ state: z.string() })),
    cancel: async (callId, reason) => answered(await send('POST', call(callId, '/cancel'), { reason }), z.unknown()),
    request: async (method, path, schema, body) => answered(await send(method, path, body), schema),
    changes: async ({ state, limit }) => {
      const query = new URLSearchParams({ ...(state ? { state } : {}), limit: String(limit ?? 100) });
      const schema = z.object({ changes: z.array(changeSchema) });
      return map(await answered(await send('GET', `/v1/changes?${query}`), schema), ({ changes }) => changes);
    },
    changeOf: async (callId) => answered(await send('GET', call(callId, '/change')), changeSchema),
    reviewChange: async (callId) =>
      answered(await send('POST', call(callId, '/change/review'), {}), z.looseObject({ state: z.string() })),
    rollback: async (callId, force) =>
      answered(await send('POST', call(callId, '/change/rollback'), { force }), rollbackSchema),
    exportLog: async () => {
      const response = await send('GET', '/v1/audit/export');
      return response.ok ? ok(await response.text()) : err(await problemOf(response));
    },
    audit: async (path, change) =>
      answered(await send(change?.method ?? 'GET', `/v1/audit/${path}`, change?.body), z.unknown()),
    auditStream: async (path) => {
      const response = await send('GET', `/v1/audit/${path}`, undefined, EXPORT_TIMEOUT_MS);
      if (!response.ok) return err(await problemOf(response));
      const body = response.body ?? new ReadableStream<Uint8Array>();
      return ok({ body, next: response.headers.get('x-next-cursor') ?? '' });
    },
    exportStream: async () => {
      const response = await send('GET', '/v1/audit/export', undefined, EXPORT_TIMEOUT_MS);
      if (!response.ok) return err(await problemOf(response));
      return ok(response.body ?? new ReadableStream<Uint8Array>());
    },
  };
}

/** Asks until the host is ready or `timeoutMs` passed; the last reason is in the error. */
export async function waitForHost(client: GatewayClient, host: string, timeoutMs: number): Answer<HostStatus> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const hosts = await client.hosts();
    if (!hosts.ok) return hosts;
    const found = hosts.value.find((candidate) => (candidate.host ?? candidate.id) === host);
    if (found?.ready) return ok(found);
    if (Date.now() > deadline) {
      const detail = found?.reason ?? 'no heartbeat was received';
      return err({ status: 503, code: 'countersign.gateway.host_unavailable', detail: `host \`${host}\`: ${detail}` });
    }
    await delay(250);
  }
}
