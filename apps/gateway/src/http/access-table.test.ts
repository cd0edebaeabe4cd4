import { createIdentity, EnvelopeKind, openIdentity, signEnvelope } from '@countersign/protocol';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { oidcSchema } from '../access/oidc-sign-in.ts';
import { type Role, SCOPES, type Scope } from '../access/principal.ts';
import { ControlPlane, type TestToken } from '../testing/control-plane.ts';

const EVERYBODY: readonly Role[] = ['viewer', 'approver', 'operator', 'admin', 'auditor'];
const DECIDERS: readonly Role[] = ['approver', 'operator', 'admin'];
const OPERATORS: readonly Role[] = ['operator', 'admin'];
const ALL_QUEUES: readonly Role[] = ['operator', 'admin', 'auditor'];

type Row = {
  /** Roles that may use the route; `open` needs no credentials. */
  readonly roles: readonly Role[] | 'open';
  readonly body?: object;
  /** It is about one call, which other queues' people must not learn of. */
  readonly aboutCall?: true;
  /** Needs a fresh sign-in, or a token with the scope `admin`. */
  readonly sensitive?: true;
  /** Needs a person who signed in; no token is enough. */
  readonly person?: true;
  /** Scope that a token needs; where it is not said, `read` for reading, and what the narrowest role may for the rest. */
  readonly scope?: Scope;
};

const VIEW_DIGEST = '0'.repeat(64);

/** Every route of the gateway. A route without a row fails the first test. */
const TABLE: Readonly<Record<string, Row>> = {
  'GET /healthz': { roles: 'open' },
  'GET /readyz': { roles: 'open' },
  'GET /login': { roles: 'open' },
  'GET /v1/oidc/login': { roles: 'open' },
  'GET /v1/oidc/callback': { roles: 'open' },
  'GET /v1/passkeys': { roles: EVERYBODY },
  'POST /v1/passkeys/options': { roles: DECIDERS, sensitive: true, person: true },
  'POST /v1/passkeys': { roles: DECIDERS, sensitive: true, person: true, body: {} },
  'DELETE /v1/passkeys/:credential': { roles: EVERYBODY, sensitive: true },
  'GET /v1/approver-list': { roles: ALL_QUEUES },
  'PUT /v1/approver-list': { roles: ['admin'], sensitive: true, body: {} },
  'POST /v1/calls/:id/challenge': { roles: DECIDERS, aboutCall: true },
  'GET /v1/delegations': { roles: EVERYBODY },
  'POST /v1/delegations': { roles: DECIDERS, sensitive: true, person: true, body: {} },
  'DELETE /v1/delegations/:id': { roles: DECIDERS },
  'GET /v1/reviews': { roles: EVERYBODY },
  'POST /v1/reviews/:call': { scope: 'decide', roles: ['approver', 'operator', 'admin', 'auditor'], body: {} },
  'GET /metrics': { roles: EVERYBODY },
  'GET /v1/me': { roles: EVERYBODY },
  'POST /v1/logout': { scope: 'read', roles: EVERYBODY },
  'GET /v1/calls': { roles: EVERYBODY },
  'GET /v1/calls/:id': { roles: EVERYBODY, aboutCall: true },
  'GET /v1/calls/:id/context': { roles: EVERYBODY, aboutCall: true },
  'GET /v1/calls/:id/scripts': { roles: EVERYBODY, aboutCall: true },
  'POST /v1/calls/:id/stop-turn': { roles: DECIDERS, aboutCall: true, body: {} },
  'GET /v1/calls/:id/alike': { roles: EVERYBODY, aboutCall: true },
  'GET /v1/hosts': { roles: EVERYBODY },
  'POST /v1/hosts/:host/journal': { scope: 'operate', roles: ['operator', 'admin'] },
  'GET /v1/events': { roles: EVERYBODY },
  'GET /v1/events/poll': { roles: EVERYBODY },
  'GET /v1/audit/export': { roles: ALL_QUEUES },
  'GET /v1/audit/queries/:name': { roles: ALL_QUEUES },
  'GET /v1/audit/holds': { roles: ALL_QUEUES },
  'POST /v1/audit/holds': { scope: 'operate', roles: ['operator', 'admin'], body: { scope: 'all', reason: 'r' } },
  'DELETE /v1/audit/holds': { roles: ['admin'], sensitive: true },
  'POST /v1/audit/erasures': { roles: ['admin'], sensitive: true, body: { scope: 'session:ses_none', reason: 'r' } },
  'POST /v1/audit/retention': { roles: ['admin'], sensitive: true, body: { apply: false } },
  'GET /v1/audit/saved': { roles: ALL_QUEUES },
  'PUT /v1/audit/saved/:name': { scope: 'read', roles: ALL_QUEUES, body: { question: 'entries' } },
  'GET /v1/audit/calls/:id/evidence': { roles: ALL_QUEUES },
  'GET /v1/audit/proofs/inclusion': { roles: ALL_QUEUES },
  'GET /v1/audit/proofs/consistency': { roles: ALL_QUEUES },
  'GET /v1/audit/check': { roles: ALL_QUEUES },
  'GET /v1/audit/streams': { roles: ALL_QUEUES },
  'GET /v1/audit/checkpoints': { roles: ALL_QUEUES },
  'POST /v1/audit/checkpoints': { scope: 'read', roles: ALL_QUEUES, body: { note: 'x' } },
  'POST /v1/calls/:id/decision': {
    roles: DECIDERS,
    aboutCall: true,
    body: { answer: 'deny', viewDigest: VIEW_DIGEST },
  },
  'GET /v1/changes': { roles: EVERYBODY },
  'GET /v1/processes': { roles: EVERYBODY },
  'GET /v1/calls/:id/output': { roles: EVERYBODY, aboutCall: true },
  'GET /v1/calls/:id/tail': { roles: EVERYBODY, aboutCall: true },
  'POST /v1/calls/:id/background': { roles: DECIDERS, aboutCall: true, body: {} },
  'GET /v1/calls/:id/change': { roles: EVERYBODY, aboutCall: true },
  'POST /v1/calls/:id/change/review': { roles: DECIDERS, aboutCall: true, body: {} },
  'POST /v1/calls/:id/change/rollback': { roles: DECIDERS, aboutCall: true, body: {} },
  'POST /v1/calls/:id/cancel': { roles: DECIDERS, aboutCall: true, body: {} },
  'GET /v1/members': { roles: ALL_QUEUES },
  'POST /v1/invitations': { roles: OPERATORS, sensitive: true, body: {} },
  'GET /v1/sign-in': { roles: 'open' },
  'POST /v1/enrolments': { roles: 'open' },
  'POST /v1/challenges': { roles: DECIDERS, body: { calls: ['call_x', 'call_y'] } },
  'GET /v1/roster': { roles: ALL_QUEUES },
  'PUT /v1/roster': { roles: ['admin'], sensitive: true, body: {} },
  'POST /v1/member-keys': { roles: 'open' },
  'DELETE /v1/members/:role/:id/keys/:key': { roles: OPERATORS, sensitive: true },
  'GET /v1/policy': { roles: EVERYBODY },
  'GET /v1/rules': { roles: ALL_QUEUES },
  'POST /v1/rules/:id/publish': { roles: OPERATORS, sensitive: true, body: {} },
  'DELETE /v1/rules/:id': { roles: OPERATORS },
  'GET /v1/requests': { roles: EVERYBODY },
  'GET /v1/requests/:id': { roles: EVERYBODY },
  'POST /v1/requests/:id/approve': { roles: OPERATORS, sensitive: true, body: {} },
  'POST /v1/requests/:id/deny': { roles: DECIDERS, body: {} },
  'POST /v1/sessions/:id/updates': { roles: OPERATORS, sensitive: true, body: {} },
  'GET /v1/trust': { roles: ALL_QUEUES },
  'POST /v1/trust/files': { roles: OPERATORS, sensitive: true, body: {} },
  'POST /v1/trust/folders': { roles: OPERATORS, sensitive: true, body: {} },
  'DELETE /v1/trust/:id': { roles: OPERATORS },
  'GET /v1/sessions/:id/layers': { roles: ALL_QUEUES },
  'POST /v1/sessions/:id/explain': { scope: 'read', roles: ALL_QUEUES, body: {} },
  'DELETE /v1/sessions/:id/held/:digest': { roles: OPERATORS, sensitive: true },
  'PUT /v1/policy': { roles: ['admin'], sensitive: true, body: { text: '' } },
  'GET /v1/sessions': { roles: EVERYBODY },
  'GET /v1/sessions/:id': { roles: ALL_QUEUES },
  'POST /v1/sessions/:id/modes': { roles: OPERATORS, body: {} },
  'DELETE /v1/sessions/:id': { roles: OPERATORS },
  'GET /v1/freeze': { roles: EVERYBODY },
  'POST /v1/freeze': { roles: OPERATORS, body: {} },
  'DELETE /v1/freeze': { roles: OPERATORS },
  'GET /v1/guardian/paused': { roles: ALL_QUEUES },
  'POST /v1/sessions/:id/resume': { roles: OPERATORS, body: { reason: 'test' } },
  'POST /v1/sessions/:id/request': { roles: OPERATORS, body: { text: 'test' } },
  'GET /v1/guardian/agreement': { roles: EVERYBODY },
  'GET /v1/guardian/disagreements': { roles: EVERYBODY },
  'POST /v1/guardian/standing': { roles: OPERATORS, body: {} },
  'GET /v1/grants': { roles: EVERYBODY },
  'DELETE /v1/grants': { roles: DECIDERS },
  'DELETE /v1/grants/:id': { roles: DECIDERS },
  'POST /v1/members': { roles: OPERATORS, sensitive: true, body: {} },
  'POST /v1/login-links': { roles: OPERATORS, sensitive: true, body: {} },
  'GET /v1/tokens': { roles: EVERYBODY },
  'POST /v1/tokens': { roles: EVERYBODY, sensitive: true, body: {} },
  'DELETE /v1/tokens/:id': { roles: EVERYBODY, sensitive: true },
  'GET /v1/notifications/channels': { scope: 'operate', roles: OPERATORS },
  'POST /v1/notifications/channels/:id/test': { roles: OPERATORS, body: {} },
  'GET /v1/notifications/dead': { scope: 'operate', roles: OPERATORS },
  'POST /v1/notifications/dead/:seq/replay': { roles: OPERATORS, body: {} },
  'GET /v1/people': { roles: ALL_QUEUES },
  'PUT /v1/people/:subject': { roles: ['admin'], sensitive: true, body: {} },
};

const TOKENS: readonly TestToken[] = [
  ...EVERYBODY.map((role) => ({ name: role, role, groups: ['payments-team'] })),
  { name: 'other-approver', role: 'approver', groups: ['shop-team'] },
  { name: 'other-viewer', role: 'viewer', groups: [] },
  { name: 'ann', role: 'approver', groups: ['payments-team'] },
];
const QUEUES = { payments: { approvers: ['payments-team'] }, shop: { approvers: ['shop-team'] } };

const plane = new ControlPlane();
let callId = '';

beforeAll(async () => {
  const oidc = oidcSchema.parse({
    ...{ issuer: 'http://127.0.0.1:1', clientId: 'countersign', publicUrl: 'http://127.0.0.1:1', roles: {} },
  });
  const passkeys = { rpId: 'desk.example', origins: ['https://desk.example'] };
  await plane.start(TOKENS, {
    passkeys,
    oidc,
    policy: { permissions: { queues: QUEUES }, ceilings: {}, security: {} },
  });
  callId = await plane.pendingCall({ queue: 'payments' });
}, 60_000);
afterAll(() => plane.stop());

const rows = Object.entries(TABLE);
const guarded = rows.filter(([, { roles }]) => roles !== 'open');

async function ask(
  name: string,
  as: string | undefined,
  headers: object = {},
): Promise<{ status: number; code: string }> {
  const [method = '', url = ''] = name.split(' ');
  const route = url
    .replace('/tokens/:id', `/tokens/tok_${'0'.repeat(32)}`)
    .replace('/delegations/:id', `/delegations/dlg_${'0'.repeat(32)}`)
    .replace(':credential', 'AAAA')
    .replace(/:id|:call/, callId)
    .replace(':subject', 'zoe')
    .replace(':seq', '1')
    .replace(':name', 'entries');
  const body = TABLE[name]?.body;
  const answer = await plane.request(method, route, {
    ...(as === undefined ? {} : { as }),
    ...(body === undefined ? {} : { body }),
    headers,
  });
  const isJson =
    answer.headers.get('content-type')?.includes('json') && !answer.headers.get('content-type')?.includes('ndjson');
  const { code } = isJson ? ((await answer.json()) as { code?: string }) : {};
  await answer.body?.cancel().catch(() => undefined);
  return { status: answer.status, code: code ?? '' };
}

function scopeOf(name: string, { roles, scope }: Row): Scope {
  if (scope) return scope;
  if (name.startsWith('GET')) return 'read';
  if (roles === OPERATORS) return 'operate';
  return roles === DECIDERS ? 'decide' : 'admin';
}

const scoped = new Map<string, string>();
/** A token of a person who holds every role, with these scopes. */
async function scopedToken(scopes: readonly Scope[]): Promise<string> {
  const key = scopes.join();
  const known = scoped.get(key);
  if (known !== undefined) return known;
  await plane.request('PUT', '/v1/people/every', {
    as: 'admin',
    body: { roles: EVERYBODY, groups: ['payments-team'] },
  });
  const body = { label: key, subject: 'every', roles: EVERYBODY, groups: ['payments-team'], scopes, days: 1 };
  const { text } = (await (await plane.request('POST', '/v1/tokens', { as: 'admin', body })).json()) as {
    text: string;
  };
  scoped.set(key, text);
  return text;
}

async function signedIn(subject: string): Promise<{ cookie: string; csrf: string }> {
  const made = await plane.request('POST', '/v1/login-links', { as: 'admin', body: { subject } });
  const { path } = (await made.json()) as { path: string };
  const answer = await plane.request('GET', path);
  const cookie = (answer.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
  const me = (await (await plane.request('GET', '/v1/me', { headers: { cookie } })).json()) as { csrf: string };
  return { cookie, csrf: me.csrf };
}

test('the table has a row for every route, and for nothing else', () => {
  const routes = plane.gateway.routes.filter((route) => !route.startsWith('HEAD '));
  expect(rows.map(([name]) => name).sort()).toEqual([...routes].sort());
});

describe('who may use a route', () => {
  test.each(guarded)('%s refuses who sends no credentials', async (name) => {
    expect(await ask(name, undefined)).toEqual({ status: 401, code: 'countersign.gateway.unauthenticated' });
  });

  test.each(guarded)('%s refuses an unknown token', async (name) => {
    expect(await ask(name, `cst_tok_${'a'.repeat(32)}_${'b'.repeat(43)}`)).toMatchObject({ status: 401 });
  });

  test.each(guarded)("%s refuses an agent's key and its signed envelope", async (name) => {
    const file = await createIdentity('agent', 'agt');
    const identity = await openIdentity(file);
    const envelope = signEnvelope(identity, {
      kind: EnvelopeKind.CALL,
      subject: 'cs.v1.call.agt',
      body: new Uint8Array(),
      nowMs: Date.now(),
    });
    for (const text of [file.publicKey, file.seed, Buffer.from(envelope).toString('base64url')])
      expect((await ask(name, text)).status).toBe(401);
  });

  test.each(guarded)('%s answers its roles and refuses every other', async (name, { roles, person }) => {
    for (const role of EVERYBODY) {
      const { status, code } = await ask(name, role);
      const allowed = roles.includes(role) && person === undefined;
      expect([role, status === 401 || status === 403]).toEqual([role, !allowed]);
      expect([role, status < 500]).toEqual([role, true]);
      if (!allowed) expect(code).toBe('countersign.gateway.forbidden');
    }
  });

  test.each(rows.filter(([, row]) => row.aboutCall))(
    '%s does not tell people of another queue that the call is there',
    async (name, { roles }) => {
      expect(await ask(name, 'other-approver')).toEqual({ status: 404, code: 'countersign.gateway.not_found' });
      const viewer = await ask(name, 'other-viewer');
      expect(viewer.status).toBe(roles.includes('viewer') ? 404 : 403);
    },
  );

  test.each(guarded.filter(([name]) => !name.startsWith('GET')))(
    '%s refuses a cookie without its CSRF token, and from another page',
    async (name) => {
      const { cookie, csrf } = await signedIn('admin');
      expect((await ask(name, undefined, { cookie })).status).toBe(401);
      const own = { cookie, 'x-csrf-token': csrf };
      const foreign = [
        { cookie, 'x-csrf-token': (await signedIn('admin')).csrf },
        { ...own, origin: 'https://evil.example' },
        { ...own, origin: 'null' },
        { ...own, 'sec-fetch-site': 'cross-site' },
      ];
      for (const headers of foreign) expect((await ask(name, undefined, headers)).status).toBe(401);
    },
  );

  test.each(guarded.filter(([, { person }]) => !person))(
    '%s answers a token that has its scope alone, and none that has every other',
    async (name, row) => {
      const scope = scopeOf(name, row);
      const needed: Scope[] = row.sensitive ? [...new Set<Scope>([scope, 'admin'])] : [scope];
      const without = await scopedToken(SCOPES.filter((other) => other !== scope));
      expect([await ask(name, await scopedToken(needed)), await ask(name, without)]).toEqual([
        expect.not.objectContaining({ code: 'countersign.gateway.forbidden' }),
        { status: 403, code: 'countersign.gateway.forbidden' },
      ]);
    },
  );

  test.each(rows.filter(([, row]) => row.sensitive))('%s refuses a sign-in of ten minutes ago', async (name) => {
    const { cookie, csrf } = await signedIn('admin');
    plane.aheadMs += 10 * 60_000;
    const answer = await ask(name, undefined, { cookie, 'x-csrf-token': csrf });
    plane.aheadMs = 0;
    expect(answer).toEqual({ status: 403, code: 'countersign.gateway.sign_in_again' });
  });
});

describe('what a reader sees of other queues', () => {
  test('a list holds the calls of his queues only', async () => {
    const seen = async (as: string) => {
      const { calls } = (await (await plane.request('GET', '/v1/calls', { as })).json()) as {
        calls: { callId: string }[];
      };
      return calls.some((call) => call.callId === callId);
    };
    const who = ['approver', 'operator', 'auditor', 'other-approver', 'other-viewer'];
    expect(await Promise.all(who.map(seen))).toEqual([true, true, true, false, false]);
  });

  test('the event stream and its resume tell nothing of them', async () => {
    const cancelled = await plane.pendingCall({ queue: 'payments' });
    const before = await fetch(`${plane.address}/v1/events`, {
      headers: { authorization: `Bearer ${plane.tokens.get('operator')}` },
    });
    await plane.request('POST', `/v1/calls/${cancelled}/cancel`, { as: 'operator', body: {} });
    const first = await readUntil(before, cancelled);
    const id = Number(/id: (\d+)/.exec(first)?.[1]) - 1;
    const resumed = async (as: string) => {
      const headers = { authorization: `Bearer ${plane.tokens.get(as)}`, 'last-event-id': String(id) };
      const answer = await fetch(`${plane.address}/v1/events`, { headers });
      const shop = await plane.pendingCall({ queue: 'shop' });
      await plane.request('POST', `/v1/calls/${shop}/cancel`, { as: 'operator', body: {} });
      return (await readUntil(answer, shop)).includes(cancelled);
    };
    expect([await resumed('operator'), await resumed('other-approver')]).toEqual([true, false]);
  });
});

describe('the long poll', () => {
  type Polled = { events: { id: number; event: string; data: { callId?: string } }[]; next: number; reset: boolean };
  const poll = async (as: string, query: string) =>
    (await (await plane.request('GET', `/v1/events/poll${query}`, { as })).json()) as Polled;

  test('answers with the next event of his queues, waits for it, and resumes after any event', async () => {
    // A gateway that has seen no event yet cannot tell whether some are gone.
    const first = await plane.pendingCall({ queue: 'shop' });
    await plane.request('POST', `/v1/calls/${first}/cancel`, { as: 'operator', body: {} });
    await vi.waitUntil(async () => (await poll('operator', '')).next > 0, 10_000);
    const from = (await poll('operator', '')).next;
    let shop = '';
    /** What a person sees until the last call is resolved; whatever of the first one came late is left out. */
    const seenBy = async (as: string) => {
      const all: Polled['events'][number][] = [];
      for (let at = from; !all.some(({ event, data }) => event === 'approval_resolved' && data.callId === shop); ) {
        const page = await poll(as, `?after=${at}&wait=20`);
        expect(page.next >= at && !page.reset).toBe(true);
        at = page.next;
        all.push(...page.events.filter(({ data }) => data.callId !== first));
      }
      return all;
    };
    const waits = seenBy('other-approver');
    const payments = await plane.pendingCall({ queue: 'payments' });
    await plane.request('POST', `/v1/calls/${payments}/cancel`, { as: 'operator', body: {} });
    shop = await plane.pendingCall({ queue: 'shop' });
    await plane.request('POST', `/v1/calls/${shop}/cancel`, { as: 'operator', body: {} });
    expect(new Set((await waits).map(({ data }) => data.callId))).toEqual(new Set([shop]));
    const all = await seenBy('operator');
    expect(all.map(({ id }) => id)).toEqual(all.map(({ id }) => id).toSorted((a, b) => a - b));
    expect(new Set(all.map(({ data }) => data.callId))).toEqual(new Set([payments, shop]));
  });

  test('says `reset` where events are gone, and nothing when nothing happened in time', async () => {
    const { next } = await poll('operator', '');
    expect(await poll('operator', `?after=${next + 1_000}&wait=20`)).toEqual({ events: [], next, reset: true });
    expect(await poll('operator', `?after=${next}&wait=1`)).toEqual({ events: [], next, reset: false });
    for (const bad of ['?after=-1', '?after=1&wait=26', '?after=x', '?after=1&after=2'])
      expect((await plane.request('GET', `/v1/events/poll${bad}`, { as: 'operator' })).status).toBe(400);
  });

  test('tells nothing to a person whose token was revoked while he waited', async () => {
    const made = await plane.request('POST', '/v1/tokens', {
      as: 'operator',
      body: { label: 'poller', roles: ['operator'], scopes: ['read'], days: 1 },
    });
    const { token, id } = (await made.json()) as { token: string; id: string };
    const { next } = await poll('operator', '');
    const headers = { authorization: `Bearer ${token}` };
    const waits = fetch(`${plane.address}/v1/events/poll?after=${next}&wait=20`, { headers });
    expect((await plane.request('DELETE', `/v1/tokens/${id}`, { as: 'operator' })).status).toBeLessThan(300);
    const call = await plane.pendingCall({ queue: 'payments' });
    await plane.request('POST', `/v1/calls/${call}/cancel`, { as: 'operator', body: {} });
    expect((await waits).status).toBe(401);
  });
});

async function readUntil(answer: Response, text: string): Promise<string> {
  let seen = '';
  const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
  while (!seen.includes(text)) {
    const { value, done } = await reader.read();
    if (done) break;
    seen += new TextDecoder().decode(value);
  }
  await reader.cancel();
  return seen;
}
