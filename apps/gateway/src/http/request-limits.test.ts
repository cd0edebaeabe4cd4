import { afterAll, beforeAll, expect, test } from 'vitest';
import { CoolDown } from '../access/cool-down.ts';
import { sourceOf } from '../access/source-of.ts';
import { ControlPlane } from '../testing/control-plane.ts';

const plane = new ControlPlane();
const PROXY = '127.0.0.1';
beforeAll(
  () =>
    plane.start(
      [
        { name: 'ann', role: 'operator' },
        { name: 'bob', role: 'approver' },
        { name: 'local-approver', role: 'approver' },
      ],
      { http: { host: '127.0.0.1', port: 0, trustedProxies: [PROXY] } },
    ),
  60_000,
);
afterAll(() => plane.stop());

const from = (ip: string) => ({ 'x-forwarded-for': ip });
const statusOf = async (route: string, options: { as?: string; headers: object }): Promise<number> => {
  const answer = await plane.request('GET', route, options);
  await answer.arrayBuffer();
  return answer.status;
};

/** Sends `count` requests over kept connections and counts the answers by status. */
async function flood(route: string, count: number, headers: object): Promise<Record<number, number>> {
  const seen: Record<number, number> = {};
  let left = count;
  const line = async () => {
    while (left > 0) {
      left -= 1;
      const status = await statusOf(route, { headers });
      seen[status] = (seen[status] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: 16 }, line));
  return seen;
}

test.each([
  ['/v1/calls', 'a guarded route', 401],
  ['/v1/sign-in', 'an open route', 200],
  ['/no-such-address', 'an unknown address', 404],
])(
  'a flood of strangers at %s (%s) is refused, and no person behind the same address',
  async (route, _kind, status) => {
    const address = from(`198.51.100.${status % 250}`);
    const seen = await flood(route, 2_600, address);
    expect(Object.keys(seen)).toEqual([String(status), '429']);
    const refused = await plane.request('GET', route, { headers: address });
    expect([refused.status, refused.headers.get('content-type'), await refused.json()]).toEqual([
      429,
      'application/problem+json; charset=utf-8',
      expect.objectContaining({ code: 'countersign.gateway.rate_limited' }),
    ]);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    for (const as of ['ann', 'bob']) expect(await statusOf('/v1/calls', { as, headers: address })).toBe(200);
    expect(await statusOf('/healthz', { headers: address })).toBe(200);
    expect(await statusOf('/readyz', { headers: address })).toBe(200);
  },
  60_000,
);

test('a person who signed in loads pages while strangers behind his address are refused', async () => {
  const made = await plane.request('POST', '/v1/login-links', { as: 'ann', body: {}, headers: from('203.0.113.1') });
  const { path } = (await made.json()) as { path: string };
  const login = await plane.request('GET', path, { headers: from('203.0.113.1') });
  const cookie = (login.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
  const address = from('203.0.113.7');
  await flood('/v1/sign-in', 2_401, address);
  expect(await statusOf('/v1/sign-in', { headers: address })).toBe(429);
  expect(await statusOf('/v1/sign-in', { headers: { ...address, cookie } })).toBe(200);
  expect(await statusOf('/v1/sign-in', { headers: { ...address, cookie: 'countersign_session=made-up' } })).toBe(429);
}, 60_000);

test('a token that was right from an address outlasts wrong ones from there; another one waits', async () => {
  const address = from('203.0.113.9');
  expect(await statusOf('/v1/me', { as: 'ann', headers: address })).toBe(200);
  for (let at = 0; at < 5; at += 1)
    expect(await statusOf('/v1/me', { as: `cst_${'x'.repeat(40)}`, headers: address })).toBe(401);
  expect(await statusOf('/v1/me', { as: 'ann', headers: address })).toBe(200);
  expect(await statusOf('/v1/me', { as: 'bob', headers: address })).toBe(429);
  expect(await statusOf('/v1/me', { as: 'bob', headers: from('203.0.113.10') })).toBe(200);
});

test('a sender who takes another address of his /64 for each request is one sender', async () => {
  const seen: Record<string, number> = {};
  let at = 0;
  const line = async () => {
    for (at += 1; at <= 2_500; at += 1) {
      const status = await statusOf('/v1/sign-in', { headers: from(`2001:db8:1:2::${at.toString(16)}`) });
      seen[status] = (seen[status] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: 8 }, line));
  expect(seen[429]).toBeGreaterThan(0);
  expect(await statusOf('/v1/sign-in', { headers: from('2001:db8:1:3::1') })).toBe(200);
}, 60_000);

test('a person beyond his own count is refused at every address, and nobody else', async () => {
  let status = 0;
  for (let at = 0; at < 1_300 && status !== 429; at += 1)
    status = await statusOf('/v1/me', { as: 'bob', headers: from(`192.0.2.${at % 200}`) });
  expect(status).toBe(429);
  expect(await statusOf('/v1/me', { as: 'ann', headers: from('192.0.2.1') })).toBe(200);
}, 60_000);

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['2001:0DB8:0000:0000:ffff::', '2001:db8:0:0::/64'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['::1', '0:0:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['64:ff9b::192.0.2.1', '64:ff9b:0:0::/64'],
])('%s is counted as %s', (ip, source) => {
  expect(sourceOf(ip)).toBe(source);
});

test('addresses and credentials are remembered up to a limit, however many come', () => {
  const cool = new CoolDown({ exemptLoopback: () => false, now: () => 1 });
  for (let at = 0; at < 5; at += 1) cool.failed('192.0.2.1');
  cool.proved('192.0.2.1', 'first');
  for (let at = 0; at < 10_000; at += 1) {
    const ip = `10.${at >> 16}.${(at >> 8) & 255}.${at & 255}`;
    cool.failed(ip);
    cool.proved(ip, 'other');
  }
  expect([cool.waitSeconds('192.0.2.1'), cool.hasProved('192.0.2.1', 'first')]).toEqual([0, false]);
  expect(cool.hasProved('10.0.39.15', 'other')).toBe(true);
});
