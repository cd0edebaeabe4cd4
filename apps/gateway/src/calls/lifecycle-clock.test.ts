import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { callEntry } from '../record/entries.ts';
import { ControlPlane } from '../testing/control-plane.ts';

const MINUTE_MS = 60_000;
const plane = new ControlPlane();
beforeAll(() => plane.start([{ name: 'ann', role: 'operator' }]), 60_000);
beforeEach(() => {
  plane.aheadMs = 0;
});
afterAll(() => plane.stop());

const asked = async <T>(method: string, route: string, body?: object): Promise<T> =>
  (await plane.request(method, route, { as: 'ann', ...(body ? { body } : {}) })).json() as Promise<T>;
const call = (id: string) => asked<{ state: string; viewDigest: string }>('GET', `/v1/calls/${id}`);
const stateOf = async (id: string): Promise<string> => (await call(id)).state;
const becomes = (id: string, state: string) => expect.poll(() => stateOf(id), { timeout: 30_000 }).toBe(state);
const ofCall = async (id: string) =>
  (await plane.entries()).filter((entry) => entry.call === id).map((entry) => entry.type);

async function approve(id: string, more: object = {}): Promise<object> {
  const { viewDigest } = await call(id);
  const body = { answer: 'approve', viewDigest, ...more };
  return asked<object>('POST', `/v1/calls/${id}/decision`, body);
}

/** Moves a call on, as a gateway and a host would. */
async function move(callId: string, steps: readonly (readonly [string, string])[], facts: object = {}): Promise<void> {
  const entries = steps.map(([type, toState]) => callEntry({ callId, type, toState, nowMs: plane.now() }));
  const reply = await plane.audit.append({ entries, ...facts });
  if (reply.refusal) throw new Error(reply.refusal.message);
}

test('an approved call that its agent does not come for expires after five minutes', async () => {
  const id = await plane.pendingCall({ executor: 'agent' });
  expect(await approve(id)).toEqual({ state: 'approved' });
  expect(await call(id)).toMatchObject({ state: 'approved', executor: 'agent', sandbox: 'none' });
  plane.aheadMs = 6 * MINUTE_MS;
  await becomes(id, 'expired');
  expect(await ofCall(id)).not.toContain('handed_over');
});

test('a call that was handed over and never reported on is unknown, not failed', async () => {
  const id = await plane.pendingCall({ executor: 'agent' });
  await approve(id);
  const orderExpiresAtMs = BigInt(plane.now() + MINUTE_MS);
  await move(id, [['handed_over', 'handed_over']], { orderId: `ord_${id}`, orderExpiresAtMs });
  plane.aheadMs = 2 * MINUTE_MS;
  await becomes(id, 'unknown');
  expect(await ofCall(id)).toEqual(expect.arrayContaining(['exec.interrupted', 'call.closed']));
});

test('a call that its host began and never reported the end of is interrupted, once it must be over', async () => {
  const [lost, runs] = await Promise.all([plane.pendingCall(), plane.pendingCall()]);
  for (const id of [lost, runs]) {
    await approve(id);
    await move(id, [['exec.started', 'running']]);
  }
  await move(runs, [['exec.backgrounded', 'backgrounded']]);
  plane.aheadMs = 2 * MINUTE_MS;
  expect(await stateOf(lost)).toBe('running');
  plane.aheadMs = 4 * MINUTE_MS;
  await becomes(lost, 'interrupted');
  expect(await ofCall(lost)).toEqual(expect.arrayContaining(['exec.interrupted', 'call.closed']));
  expect(await stateOf(runs)).toBe('backgrounded');
});

test('a background command is interrupted once its host was not heard of for an hour', async () => {
  const id = await plane.pendingCall();
  await approve(id);
  await move(id, [
    ['exec.started', 'running'],
    ['exec.backgrounded', 'backgrounded'],
  ]);
  plane.aheadMs = 50 * MINUTE_MS;
  const ended = await plane.pendingCall({ executor: 'agent' });
  await approve(ended);
  plane.aheadMs = 58 * MINUTE_MS;
  await becomes(ended, 'expired');
  expect(await stateOf(id)).toBe('backgrounded');
  plane.aheadMs = 61 * MINUTE_MS;
  await becomes(id, 'interrupted');
  expect(await ofCall(id)).toEqual(expect.arrayContaining(['exec.interrupted', 'call.closed']));
});

test('a call that its agent carries out cannot be narrowed, since nothing would keep it there', async () => {
  const id = await plane.pendingCall({ executor: 'agent' });
  expect(await approve(id, { narrow: { timeoutMs: 10 } })).toMatchObject({ code: 'countersign.gateway.not_offered' });
  expect(await stateOf(id)).toBe('pending');
});

test('a turn whose lease lapses ends what waits and runs, and leaves its background to the session', async () => {
  const view = { turn: 'turn_1' };
  const [waits, runs, background, other] = await Promise.all([
    plane.pendingCall({ view }),
    plane.pendingCall({ view }),
    plane.pendingCall({ view }),
    plane.pendingCall(),
  ]);
  for (const id of [runs, background]) {
    await approve(id);
    await move(id, [['exec.started', 'running']]);
  }
  await move(background, [['exec.backgrounded', 'backgrounded']]);
  // A gateway that starts gives every turn one whole lease.
  await expect.poll(() => ofCall(waits), { timeout: 30_000 }).not.toContain('call.closed');
  const lapsed = async () => {
    plane.aheadMs += 31_000;
    return stateOf(waits);
  };
  await expect.poll(lapsed, { timeout: 30_000, interval: 1_500 }).toBe('cancelled');
  await expect.poll(() => ofCall(runs), { timeout: 30_000 }).toContain('call.cancel_requested');
  expect(await ofCall(background)).not.toContain('call.cancel_requested');
  expect([await stateOf(background), await stateOf(other)]).toEqual(['backgrounded', 'pending']);
});

test('a grant whose time is over is ended in the record and no longer listed', async () => {
  const covers = [{ tool: 'write', action: 'write', scope: '/srv/project' }];
  const id = await plane.pendingCall({ view: { offers: { session: covers } } });
  const { grant } = (await approve(id, { remember: 'session', grantMs: MINUTE_MS })) as { grant: string };
  const listed = async () =>
    (await asked<{ grants: { id: string }[] }>('GET', '/v1/grants')).grants.map((one) => one.id);
  await expect.poll(listed, { timeout: 30_000 }).toContain(grant);
  plane.aheadMs = 2 * MINUTE_MS;
  await expect.poll(listed, { timeout: 30_000 }).not.toContain(grant);
  const ended = async () => (await plane.entries()).filter(({ id: entry }) => entry === `ent_${grant}_grant.ended_1`);
  await expect
    .poll(async () => (await ended()).map(({ type }) => type), { timeout: 30_000 })
    .toEqual(['grant.expired']);
});

test.each([
  ['ahead', 2 * 60 * MINUTE_MS],
  ['behind', -2 * 60 * MINUTE_MS],
])(
  'a gateway whose clock is two hours %s decides nothing, expires nothing and says why; it can only freeze',
  async (_title, byMs) => {
    const id = await plane.pendingCall();
    const { viewDigest } = await call(id);
    plane.wrongByMs = byMs;
    try {
      const ready = await fetch(`${plane.address}/readyz`);
      expect([ready.status, await ready.json()]).toMatchObject([503, { code: 'countersign.gateway.clock_off' }]);
      expect((await fetch(`${plane.address}/healthz`)).status).toBe(200);
      expect(await approve(id)).toMatchObject({ code: 'countersign.gateway.clock_off' });
      const answer = await plane.request('POST', `/v1/calls/${id}/decision`, {
        as: 'ann',
        body: { answer: 'approve', viewDigest },
      });
      expect(answer.status).toBe(503);
      const freeze = { scope: 'agent:nobody', reason: 'the clock is off' };
      expect((await plane.request('POST', '/v1/freeze', { as: 'ann', body: freeze })).status).toBe(200);
      // Longer than a round of the sweep, which would have expired it.
      await sleep(6_000);
    } finally {
      plane.wrongByMs = 0;
    }
    expect(await stateOf(id)).toBe('pending');
    expect(await approve(id)).toMatchObject({ state: expect.stringMatching(/approved|dispatched/) });
    await asked('DELETE', '/v1/freeze?scope=agent:nobody&reason=over');
  },
  60_000,
);
