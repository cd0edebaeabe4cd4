import { existsSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { GatewayClient } from '../gateway-client.ts';
import { verifyLog } from './check.ts';
import {
  answerAndEnd,
  callUntil,
  eventually,
  type FleetUnderTest,
  newSession,
  startFleet,
} from './fleet-under-test.ts';

let fleet: FleetUnderTest;
let approver: GatewayClient;
let operator: GatewayClient;
let admin: GatewayClient;

beforeAll(async () => {
  fleet = await startFleet('sessions');
  approver = fleet.installation.client('local-approver');
  operator = fleet.installation.secondClient('local-operator');
  admin = fleet.installation.client('local-admin');
}, 90_000);
afterAll(() => fleet?.stop(), 60_000);

const write = (session: string, name: string, turn?: string) => ({
  tool: 'write',
  args: { path: name, content: 'x' },
  session,
  ...(turn === undefined ? {} : { turn }),
});
const bash = (session: string, command: string) => ({ tool: 'bash', args: { command }, session });
const modes = (session: string, body: object, by = operator) =>
  by.request('POST', `/v1/sessions/${session}/modes`, z.unknown(), body);
const remove = (session: string) => operator.request('DELETE', `/v1/sessions/${session}?reason=over`, z.unknown());
async function child(parent: string, more: object = {}): Promise<string> {
  const token = await fleet.agent.issueChildToken(parent);
  if (!token.ok) throw new Error(token.error.message);
  return newSession(fleet, { parent: { session: parent, token: token.value }, ...more });
}
const running = () =>
  eventually(async () => {
    const hosts = await operator.hosts();
    return hosts.ok && hosts.value.some(({ running: count }) => Number(count) > 0) ? true : undefined;
  });

describe('a child session', () => {
  test('needs a token of its parent that works once', async () => {
    const parent = await newSession(fleet);
    const token = await fleet.agent.issueChildToken(parent);
    if (!token.ok) throw new Error(token.error.message);
    const withToken = { parent: { session: parent, token: token.value } };
    await newSession(fleet, withToken);
    await expect(newSession(fleet, withToken)).rejects.toThrow('child_token');
    await expect(newSession(fleet, { parent: { session: parent, token: 'made-up' } })).rejects.toThrow('child_token');
  });

  test('is shown at its root with the chain, and has no grant of its parent', async () => {
    const root = await newSession(fleet);
    const first = await fleet.agent.call(write(root, 'granted.txt'));
    await answerAndEnd(approver, first, { answer: 'approve', remember: 'session' });
    const middle = await child(root);
    const last = await child(middle);
    const waiting = await callUntil(fleet, write(last, 'deep.txt'), ['pending']);
    const seen = await approver.callById(waiting.call.callId);
    expect(seen).toMatchObject({
      ok: true,
      value: { sessionId: last, rootSessionId: root, view: { chain: [root, middle, last] } },
    });
    expect((await answerAndEnd(approver, waiting.call, { answer: 'approve' })).state).toBe('done');
  });

  test('never has more than an ancestor has at the time of the call', async () => {
    const root = await newSession(fleet);
    const last = await child(await child(root));
    expect((await (await fleet.agent.call(bash(last, 'true'))).result).state).toBe('done');
    expect(await modes(root, { permissionMode: 'strict' })).toMatchObject({ ok: true });
    const waits = await callUntil(fleet, bash(last, 'true'), ['pending']);
    expect(waits.state).toBe('pending');
    waits.call.cancel();
  });

  test('is frozen and ends with its root', async () => {
    const root = await newSession(fleet);
    const last = await child(root);
    const waiting = await callUntil(fleet, write(last, 'waits.txt'), ['pending']);
    await operator.request('POST', '/v1/freeze', z.unknown(), { scope: `session:${root}`, reason: 'x' });
    expect(await (await fleet.agent.call(bash(last, 'true'))).result).toMatchObject({
      code: 'countersign.gateway.frozen',
    });
    await operator.request('DELETE', `/v1/freeze?scope=session:${root}&reason=over`, z.unknown());
    expect(await remove(root)).toMatchObject({ ok: true });
    expect((await waiting.call.result).state).toBe('cancelled');
    expect((await (await fleet.agent.call(bash(last, 'true'))).result).code).toBe(
      'countersign.gateway.unknown_session',
    );
  });
});

test('deleting a session cancels what waits, stops what runs and ends its grants', async () => {
  const session = await newSession(fleet);
  await answerAndEnd(approver, await fleet.agent.call(write(session, 'g.txt')), {
    answer: 'approve',
    remember: 'session',
  });
  const runs = await callUntil(fleet, bash(session, 'sleep 60'), ['dispatched']);
  await running();
  const waits = await callUntil(fleet, bash(session, 'sudo true'), ['pending']);
  expect(await fleet.agent.closeSession(session, 'done here')).toEqual({ ok: true, value: undefined });
  expect([(await waits.call.result).state, (await runs.call.result).state]).toEqual(['cancelled', 'stopped']);
  const left = await operator.request(
    'GET',
    `/v1/grants?session=${session}`,
    z.object({ grants: z.array(z.unknown()) }),
  );
  expect(left).toEqual({ ok: true, value: { grants: [] } });
});

test('a turn that is stopped cancels its waiting calls and stops its running ones, and no others', async () => {
  const session = await newSession(fleet);
  const turn = fleet.agent.startTurn(session);
  const runs = await callUntil(fleet, { ...bash(session, 'sleep 60'), turn: turn.id }, ['dispatched']);
  await running();
  const waits = await callUntil(fleet, write(session, 'turn.txt', turn.id), ['pending']);
  const other = await callUntil(fleet, write(session, 'other.txt'), ['pending']);
  turn.stop();
  expect([(await waits.call.result).state, (await runs.call.result).state]).toEqual(['cancelled', 'stopped']);
  expect((await answerAndEnd(approver, other.call, { answer: 'approve' })).state).toBe('done');
});

describe('modes', () => {
  test('change for later calls only, inside the ceilings, by an operator', async () => {
    const session = await newSession(fleet);
    const waiting = await callUntil(fleet, write(session, 'mode.txt'), ['pending']);
    expect(await modes(session, { permissionMode: 'strict' })).toMatchObject({ ok: true });
    expect((await answerAndEnd(approver, waiting.call, { answer: 'approve' })).state).toBe('done');
    const later = await callUntil(fleet, bash(session, 'true'), ['pending']);
    expect(later.state).toBe('pending');
    later.call.cancel();
    for (const body of [{ permissionMode: 'yolo' }, { approvalMode: 'full_access' }, { eternal: true }])
      expect(await modes(session, body)).toMatchObject({ error: { code: 'countersign.gateway.not_offered' } });
    expect(await modes(session, { permissionMode: 'dev' }, approver)).toMatchObject({ error: { status: 403 } });
  });

  test('unattended mode answers the waiting asks of the mode table when it is turned on, and no others', async () => {
    const text = JSON.stringify({ mode: 'dev', ceilings: { mode: 'networked', eternal: true } });
    await admin.request('PUT', '/v1/policy', z.unknown(), { text, name: 'policy.json' });
    const session = await newSession(fleet);
    const table = await callUntil(fleet, write(session, 'eternal.txt'), ['pending']);
    const risky = await callUntil(fleet, bash(session, 'sudo true'), ['pending']);
    expect(await modes(session, { eternal: true })).toMatchObject({ ok: true });
    expect(await table.call.result).toMatchObject({ state: 'done', decidedBy: 'eternal' });
    expect(await (await fleet.agent.call(write(session, 'later.txt'))).result).toMatchObject({ decidedBy: 'eternal' });
    expect(existsSync(path.join(fleet.installation.data.sampleProject, 'later.txt'))).toBe(true);
    risky.call.cancel();
    expect((await risky.call.result).state).toBe('cancelled');
    expect((await verifyLog(fleet.installation)).text).toMatch(/^\d+ entries, 0 problems$/);
  });
});
