import { afterAll, beforeAll, expect, test } from 'vitest';
import { ControlPlane, type TestToken } from '../testing/control-plane.ts';

const TOKENS: readonly TestToken[] = [
  { name: 'boss', role: 'admin' },
  { name: 'op', role: 'operator' },
  { name: 'ann', role: 'approver', groups: ['red'] },
];
const DAY_MS = 86_400_000;
const plane = new ControlPlane();

beforeAll(() => plane.start(TOKENS), 60_000);
afterAll(() => plane.stop());

type Made = { id: string; text: string; subject: string };
const wanted = { label: 'ci', roles: ['viewer'], scopes: ['read'], days: 1 };
const create = (as: string, body: object) => plane.request('POST', '/v1/tokens', { as, body });
const made = async (body: object): Promise<Made> => (await (await create('boss', body)).json()) as Made;
const statusOf = async (text: string, method = 'GET', route = '/v1/me', body?: object): Promise<number> =>
  (await plane.request(method, route, { as: text, ...(body ? { body } : {}) })).status;

test('a token works until it is revoked, and its text is in no list, entry or later answer', async () => {
  const token = await made(wanted);
  expect(await statusOf(token.text)).toBe(200);
  const list = await (await plane.request('GET', '/v1/tokens', { as: 'boss' })).text();
  const log = JSON.stringify(await plane.entries());
  const secret = token.text.slice(-20);
  expect([list.includes(token.id), list.includes(secret), list.includes('sha256')]).toEqual([true, false, false]);
  expect([log.includes(token.id), log.includes(secret)]).toEqual([true, false]);
  expect((await plane.request('DELETE', `/v1/tokens/${token.id}`, { as: 'boss' })).status).toBe(200);
  expect(await statusOf(token.text)).toBe(401);
});

test('a token ends at its expiry, to the millisecond', async () => {
  const token = await made(wanted);
  const { tokens } = (await (await plane.request('GET', '/v1/tokens', { as: 'boss' })).json()) as {
    tokens: { id: string; expires_ms: number }[];
  };
  const expiresMs = tokens.find(({ id }) => id === token.id)?.expires_ms ?? 0;
  expect(Math.abs(expiresMs - (Date.now() + DAY_MS))).toBeLessThan(60_000);
  plane.aheadMs = DAY_MS - 60_000;
  expect(await statusOf(token.text)).toBe(200);
  plane.aheadMs = DAY_MS + 1;
  expect(await statusOf(token.text)).toBe(401);
  plane.aheadMs = 0;
});

test('a token does nothing outside its scopes, whatever its roles', async () => {
  const token = await made({ ...wanted, roles: ['approver'], scopes: ['read'] });
  const callId = await plane.pendingCall();
  expect(await statusOf(token.text, 'GET', `/v1/calls/${callId}`)).toBe(200);
  expect(await statusOf(token.text, 'POST', `/v1/calls/${callId}/cancel`, {})).toBe(403);
  expect(await statusOf(token.text, 'POST', '/v1/tokens', wanted)).toBe(403);
});

test('nobody makes a token for somebody else, for a role or a group that he does not hold', async () => {
  const own = { ...wanted, roles: ['approver'], groups: ['red'] };
  expect((await create('ann', own)).status).toBe(201);
  expect((await create('ann', { ...own, subject: 'boss' })).status).toBe(403);
  expect((await create('ann', { ...own, roles: ['admin'] })).status).toBe(403);
  expect((await create('ann', { ...own, groups: ['blue'] })).status).toBe(403);
  expect((await create('op', { ...own, groups: [] })).status).toBe(403);
});

test('nobody revokes the token of somebody else', async () => {
  const token = await made({ ...wanted, subject: 'zoe' });
  expect((await plane.request('DELETE', `/v1/tokens/${token.id}`, { as: 'ann' })).status).toBe(404);
  expect(await statusOf(token.text)).toBe(200);
});

test('a token loses what its person loses, and ends with him', async () => {
  const put = (body: object) => plane.request('PUT', '/v1/people/kim', { as: 'boss', body });
  await put({ roles: ['approver', 'viewer'], groups: ['red'] });
  const token = await made({ ...wanted, subject: 'kim', roles: ['approver', 'viewer'], groups: ['red'] });
  const me = async () => (await (await plane.request('GET', '/v1/me', { as: token.text })).json()) as object;
  expect(await me()).toMatchObject({ roles: ['approver', 'viewer'], groups: ['red'] });
  await put({ roles: ['viewer'], groups: [] });
  expect(await me()).toMatchObject({ roles: ['viewer'], groups: [] });
  await put({ roles: ['viewer'], groups: [], active: false });
  expect(await statusOf(token.text)).toBe(401);
});

/** Opens the event stream; resolves with whatever `during` did to it: `ended`, or the next text that holds `mark`. */
async function streamed(headers: object, mark: string, during: () => Promise<unknown>): Promise<'ended' | 'seen'> {
  const answer = await plane.request('GET', '/v1/events', { headers });
  expect(answer.status).toBe(200);
  const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
  await reader.read();
  await during();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read().catch(() => ({ value: undefined, done: true }));
    if (done) return 'ended';
    text += new TextDecoder().decode(value);
    if (!text.includes(mark)) continue;
    await reader.cancel();
    return 'seen';
  }
}

test('an open event stream ends when its token is revoked, its person leaves, or its session is closed; another one goes on', async () => {
  const tokenOf = async (subject: string) => {
    await plane.request('PUT', `/v1/people/${subject}`, { as: 'boss', body: { roles: ['viewer'] } });
    return made({ ...wanted, subject });
  };
  const [ida, joe] = [await tokenOf('ida'), await tokenOf('joe')];
  const link = await plane.request('POST', '/v1/login-links', { as: 'boss', body: { subject: 'ida' } });
  const signedIn = await plane.request('GET', ((await link.json()) as { path: string }).path);
  const cookie = (signedIn.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
  const { csrf } = (await (await plane.request('GET', '/v1/me', { headers: { cookie } })).json()) as { csrf: string };
  const revoke = () => plane.request('DELETE', `/v1/tokens/${ida.id}`, { as: 'boss' });
  const logOut = () => plane.request('POST', '/v1/logout', { headers: { cookie, 'x-csrf-token': csrf } });
  const body = { roles: ['viewer'], active: false };
  const leave = () => plane.request('PUT', '/v1/people/joe', { as: 'boss', body });
  const callId = await plane.pendingCall();
  const boss = { authorization: `Bearer ${plane.tokens.get('boss')}` };
  const goesOn = streamed(boss, callId, async () => {
    const ends = [
      streamed({ authorization: `Bearer ${ida.text}` }, 'never', revoke),
      streamed({ authorization: `Bearer ${joe.text}` }, 'never', leave),
      streamed({ cookie }, 'never', logOut),
    ];
    expect(await Promise.all(ends)).toEqual(['ended', 'ended', 'ended']);
    await plane.request('POST', `/v1/calls/${callId}/cancel`, { as: 'op', body: {} });
  });
  expect(await goesOn).toBe('seen');
}, 60_000);

test('people and tokens outlive the gateway, and a revocation holds at another gateway within seconds', async () => {
  const token = await made(wanted);
  await plane.request('PUT', '/v1/people/lou', { as: 'boss', body: { roles: ['viewer'] } });
  const first = plane.gateway;
  await plane.startGateway(TOKENS);
  expect(await statusOf(token.text)).toBe(200);
  const { people } = (await (await plane.request('GET', '/v1/people', { as: 'boss' })).json()) as {
    people: { subject: string }[];
  };
  expect(people.map(({ subject }) => subject)).toContain('lou');
  const revoked = await fetch(`http://127.0.0.1:${first.port}/v1/tokens/${token.id}`, {
    method: 'DELETE',
    headers: { authorization: `Bearer ${plane.tokens.get('boss')}` },
  });
  expect(revoked.status).toBe(200);
  plane.aheadMs += 3_001;
  expect(await statusOf(token.text)).toBe(401);
  plane.aheadMs = 0;
  await first.stop();
});

test('every administrative act is an entry that names who did it', async () => {
  const token = await made({ ...wanted, subject: 'zoe' });
  await plane.request('DELETE', `/v1/tokens/${token.id}`, { as: 'boss' });
  await plane.request('PUT', '/v1/people/max', { as: 'boss', body: { roles: ['viewer'] } });
  await plane.request('POST', '/v1/login-links', { as: 'boss', body: { subject: 'max' } });
  const acts = (await plane.entries())
    .filter(({ type }) => type === 'admin.changed')
    .map(({ detail }) => detail as { what: string; by: string; token?: string; subject?: string });
  const about = acts.filter(({ token: id, subject }) => id === token.id || subject === 'max');
  expect(about.map(({ what, by }) => [what, by])).toEqual([
    ['token.created', 'boss'],
    ['token.revoked', 'boss'],
    ['person.added', 'boss'],
    ['login_link.created', 'boss'],
  ]);
});

test('outside hardened mode a token in the address reads, and changes nothing', async () => {
  const text = plane.tokens.get('boss') ?? '';
  expect((await plane.request('GET', `/v1/me?access_token=${text}`)).status).toBe(200);
  const token = await made(wanted);
  expect((await plane.request('DELETE', `/v1/tokens/${token.id}?access_token=${text}`)).status).toBe(401);
});

test('hardened mode takes no token in an address, makes no links, and cools down loopback after wrong credentials', async () => {
  const first = plane.gateway;
  const policy = { permissions: {}, ceilings: {}, security: { hardened_mode: true } };
  await plane.startGateway(TOKENS, { policy });
  await first.stop();
  const text = plane.tokens.get('boss') ?? '';
  expect((await plane.request('GET', `/v1/me?access_token=${text}`)).status).toBe(401);
  expect((await plane.request('POST', '/v1/login-links', { as: 'boss', body: {} })).status).toBe(403);
  for (let wrong = 0; wrong < 5; wrong += 1) expect(await statusOf(`cst_${'x'.repeat(40)}`)).toBe(401);
  const refused = await plane.request('GET', '/v1/me', { as: 'boss' });
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '30']);
  plane.aheadMs = 30_001;
  expect(await statusOf(text)).toBe(200);
  plane.aheadMs = 0;
});
