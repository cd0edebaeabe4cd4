import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ControlPlane, type TestToken } from '../testing/control-plane.ts';

const TOKENS: readonly TestToken[] = [
  { name: 'boss', role: 'admin' },
  { name: 'ann', role: 'approver', groups: ['dev'] },
  { name: 'lea', role: 'approver', groups: ['leads'] },
];
const queues = {
  late: { approvers: ['dev'], slaMinutes: 30, escalation: { afterMinutes: 10, approvers: ['leads'] } },
  glass: { approvers: ['dev'], breakGlass: { groups: ['leads'], reviewHours: 1 } },
};

const plane = new ControlPlane();
const told: { type: string; data: { call: string; decided_by: string; url: string } }[] = [];
let hook: Server;

/** Starts the gateway anew, which looks at what waits at once. */
async function startAt(aheadMs: number): Promise<void> {
  await plane.gateway?.stop();
  plane.aheadMs = aheadMs;
  const url = `http://127.0.0.1:${(hook.address() as AddressInfo).port}/hook`;
  const channels = [{ id: 'ops', kind: 'webhook', template: 'standard', url, secretFile: plane.file('secret') }];
  const policy = { permissions: { queues }, ceilings: {}, security: {} };
  await plane.startGateway(TOKENS, { channels: channels as never, policy });
}

beforeAll(async () => {
  hook = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on('end', () => {
      told.push(JSON.parse(body) as (typeof told)[number]);
      response.end();
    });
  });
  await new Promise<void>((resolve) => hook.listen(0, '127.0.0.1', resolve));
  await plane.start(TOKENS);
  writeFileSync(plane.file('secret'), `whsec_${randomBytes(24).toString('base64')}\n`, { mode: 0o600 });
  await startAt(0);
}, 60_000);
afterAll(async () => {
  await plane.stop();
  hook.close();
});

const typesOf = (callId: string) => told.filter(({ data }) => data.call === callId).map(({ type }) => type);

async function breakGlass(callId: string): Promise<void> {
  const link = await plane.request('POST', '/v1/login-links', { as: 'boss', body: { subject: 'lea' } });
  const signedIn = await plane.request('GET', ((await link.json()) as { path: string }).path);
  const cookie = (signedIn.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
  const me = (await (await plane.request('GET', '/v1/me', { headers: { cookie } })).json()) as { csrf: string };
  const read = await plane.request('GET', `/v1/calls/${callId}`, { as: 'boss' });
  const { viewDigest } = (await read.json()) as { viewDigest: string };
  const body = { answer: 'approve', viewDigest, breakGlass: true, reason: 'production is down, ticket 4711' };
  const headers = { cookie, 'x-csrf-token': me.csrf };
  expect((await plane.request('POST', `/v1/calls/${callId}/decision`, { body, headers })).status).toBe(200);
}

test('channels are told once of an escalation, of an answer that is due, of an emergency and of its late review', async () => {
  const deadlineMs = Date.now() + 5 * 3_600_000;
  const waiting = await plane.pendingCall({ queue: 'late', principal: 'rita', deadlineMs });
  const emergency = await plane.pendingCall({ queue: 'glass', principal: 'rita', deadlineMs });
  await breakGlass(emergency);
  await expect.poll(() => typesOf(emergency), { timeout: 20_000 }).toContain('approval.emergency');
  expect(told.find(({ type }) => type === 'approval.emergency')?.data).toMatchObject({
    decided_by: 'lea',
    url: expect.stringContaining(`/calls/${emergency}`),
  });
  await startAt(11 * 60_000);
  await expect.poll(() => typesOf(waiting), { timeout: 20_000 }).toContain('approval.escalated');
  expect(typesOf(waiting)).not.toContain('approval.overdue');
  await startAt(61 * 60_000);
  await expect.poll(() => typesOf(waiting), { timeout: 20_000 }).toContain('approval.overdue');
  await expect.poll(() => typesOf(emergency), { timeout: 20_000 }).toContain('review.due');
  const later = await plane.pendingCall({ queue: 'late', principal: 'rita', deadlineMs });
  await startAt(62 * 60_000);
  await expect.poll(() => typesOf(later), { timeout: 20_000 }).toContain('approval.requested');
  for (const type of ['approval.escalated', 'approval.overdue'])
    expect(typesOf(waiting).filter((one) => one === type)).toEqual([type]);
  expect(typesOf(emergency).filter((type) => type === 'review.due')).toEqual(['review.due']);
}, 120_000);
