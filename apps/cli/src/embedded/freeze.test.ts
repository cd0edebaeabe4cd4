import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { GatewayClient } from '../gateway-client.ts';
import { verifyLog } from './check.ts';
import {
  answerAndEnd,
  callUntil,
  commandOf,
  eventually,
  type FleetUnderTest,
  newSession,
  startFleet,
  waitingView,
} from './fleet-under-test.ts';

let fleet: FleetUnderTest;
let approver: GatewayClient;
let operator: GatewayClient;
let other: GatewayClient;

beforeAll(async () => {
  fleet = await startFleet('freeze');
  approver = fleet.installation.client('local-approver');
  operator = fleet.installation.client('local-operator');
  other = fleet.installation.secondClient('local-operator');
}, 90_000);
afterAll(() => fleet?.stop(), 60_000);

const set = (scope: string, stopRunning = false, by: GatewayClient = operator) =>
  by.request('POST', '/v1/freeze', z.unknown(), { scope, reason: 'an incident', stopRunning });
const clear = (scope: string) =>
  other.request('DELETE', `/v1/freeze?${new URLSearchParams({ scope, reason: 'over' })}`, z.unknown());
const bash = (session: string, command: string) => ({ tool: 'bash', args: { command }, session });
const run = async (session: string, command = 'true') => (await fleet.agent.call(bash(session, command))).result;

describe.each(['all', 'host:local', 'agent:sample', 'session'])('a freeze of %s', (kind) => {
  test('refuses new calls at every gateway, keeps waiting ones from approval, and ends with a reason', async () => {
    const session = await newSession(fleet);
    const scope = kind === 'session' ? `session:${session}` : kind;
    const waiting = await fleet.agent.call({ tool: 'write', args: { path: 'w.txt', content: 'x' }, session });
    const viewDigest = await waitingView(approver, waiting.callId);
    expect(await set(scope)).toMatchObject({ ok: true });
    for (let tries = 0; tries < 4; tries += 1)
      expect(await run(session)).toMatchObject({ state: 'rejected', code: 'countersign.gateway.frozen' });
    for (const client of [approver, fleet.installation.secondClient('local-approver')])
      expect(await client.decide(waiting.callId, { answer: 'approve', viewDigest })).toMatchObject({
        error: { status: 409, code: 'countersign.gateway.frozen' },
      });
    expect(await operator.request('DELETE', `/v1/freeze?scope=${scope}`, z.unknown())).toMatchObject({
      error: { status: 400 },
    });
    expect(await clear(scope)).toMatchObject({ ok: true });
    expect((await answerAndEnd(approver, waiting, { answer: 'approve' })).state).toBe('done');
    expect((await run(session)).state).toBe('done');
  });
});

test('a freeze holds its own scope only', async () => {
  const [frozen, free] = [await newSession(fleet), await newSession(fleet)];
  await set(`session:${frozen}`);
  expect([(await run(frozen)).state, (await run(free)).state]).toEqual(['rejected', 'done']);
  await clear(`session:${frozen}`);
});

test('a freeze stops what runs only when it is asked to', async () => {
  const session = await newSession(fleet);
  const { call } = await callUntil(fleet, bash(session, 'sleep 3; echo lived'), ['dispatched']);
  await eventually(async () => {
    const hosts = await operator.hosts();
    return hosts.ok && hosts.value.some(({ running }) => Number(running) > 0) ? true : undefined;
  });
  await set('host:local');
  expect(await call.result).toMatchObject({ state: 'done' });
  await clear('host:local');
  const { call: second } = await callUntil(fleet, bash(session, 'sleep 60'), ['dispatched']);
  await eventually(async () => {
    const hosts = await operator.hosts();
    return hosts.ok && hosts.value.some(({ running }) => Number(running) > 0) ? true : undefined;
  });
  await set(`session:${session}`, true);
  expect((await second.result).state).toBe('stopped');
  await clear(`session:${session}`);
});

test('each host confirms; the command line sets, shows and clears', async () => {
  expect(await commandOf(fleet, 'freeze', 'set', 'all', '--reason', 'a drill')).toMatchObject({
    freezes: [{ scope: 'all', by: 'local-operator', reason: 'a drill', stopRunning: false }],
  });
  const stateSchema = z.looseObject({ unconfirmed: z.array(z.string()), confirmed: z.array(z.unknown()) });
  await eventually(async () => {
    const state = await operator.request('GET', '/v1/freeze', stateSchema);
    return state.ok && state.value.unconfirmed.length === 0 ? true : undefined;
  });
  expect(await commandOf(fleet, 'freeze', 'status')).toMatchObject({ confirmed: [{ host: 'local' }], unconfirmed: [] });
  expect(await commandOf(fleet, 'freeze', 'clear', 'all', '--reason', 'the drill is over')).toMatchObject({
    freezes: [],
  });
  expect((await verifyLog(fleet.installation)).text).toMatch(/^\d+ entries, 0 problems$/);
}, 60_000);

test('only an operator freezes', async () => {
  expect(await set('all', false, approver)).toMatchObject({ error: { status: 403 } });
});
