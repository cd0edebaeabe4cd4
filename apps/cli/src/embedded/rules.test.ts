import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { z } from 'zod';
import type { GatewayClient } from '../gateway-client.ts';
import { verifyLog } from './check.ts';
import {
  answerAndEnd,
  callUntil,
  commandOf,
  type FleetUnderTest,
  newSession,
  startFleet,
  waitingView,
} from './fleet-under-test.ts';

vi.setConfig({ testTimeout: 90_000 });

let fleet: FleetUnderTest;
let operator: GatewayClient;
let session: string;

beforeAll(async () => {
  fleet = await startFleet('rules');
  operator = fleet.installation.client('local-operator');
  const text = JSON.stringify({ mode: 'strict', ceilings: { mode: 'networked' } });
  const admin = fleet.installation.client('local-admin');
  await admin.request('PUT', '/v1/policy', z.unknown(), { text, name: 'policy.json' });
  session = await newSession(fleet);
}, 90_000);
afterAll(() => fleet?.stop(), 60_000);

const bash = (command: string, more: object = {}, of = session) => ({
  tool: 'bash',
  args: { command, ...more },
  session: of,
});
/** `pending` for a call that asks, else how it ended. */
async function stateOf(request: Parameters<typeof callUntil>[1]): Promise<string> {
  const sent = await callUntil(fleet, request, ['pending', 'dispatched']);
  if (sent.state === 'pending') sent.call.cancel();
  const end = await sent.call.result;
  return sent.state === 'pending' ? 'pending' : end.state;
}
type Rules = { rules: { id: string; says: string[]; state: string }[] };

test('always saves what was shown before the click, for this agent, project and folder, until it is revoked', async () => {
  const call = await fleet.agent.call(bash('echo hello'));
  await waitingView(operator, call.callId);
  const shown = await operator.callById(call.callId);
  const offer = { says: ['allow `bash echo hello`'], reach: expect.stringContaining('agent `sample`') };
  expect(shown).toMatchObject({ value: { view: { offers: { always: offer } } } });
  expect((await answerAndEnd(operator, call, { answer: 'approve', remember: 'always' })).state).toBe('done');
  const again = await (await fleet.agent.call(bash('echo hello', {}, await newSession(fleet)))).result;
  const { rules } = (await commandOf(fleet, 'rules', 'list')) as Rules;
  expect(rules).toMatchObject([{ says: offer.says, state: 'active' }]);
  expect(again).toMatchObject({ state: 'done', decidedBy: 'rule' });
  expect(await stateOf(bash('echo hello there'))).toBe('pending');
  expect(await stateOf(bash('echo hello; echo more'))).toBe('pending');
  expect(await stateOf(bash('echo hello', { cwd: '/tmp' }))).not.toBe('done');
  await commandOf(fleet, 'rules', 'revoke', rules[0]?.id ?? '');
  expect(await stateOf(bash('echo hello'))).toBe('pending');
});

test('always for a script asks again when the script has changed', async () => {
  const script = path.join(fleet.installation.data.sampleProject, 'seed.sh');
  writeFileSync(script, 'echo one\n');
  const call = await fleet.agent.call(bash('sh seed.sh'));
  expect((await answerAndEnd(operator, call, { answer: 'approve', remember: 'always' })).state).toBe('done');
  expect(await stateOf(bash('sh seed.sh'))).toBe('done');
  writeFileSync(script, 'echo two\n');
  expect(await stateOf(bash('sh seed.sh'))).toBe('pending');
});

test('always is not offered where no rule could allow the call, and is not for approvers to give', async () => {
  const sudo = await fleet.agent.call(bash('sudo true'));
  const viewDigest = await waitingView(operator, sudo.callId);
  const always = { answer: 'approve', remember: 'always' } as const;
  expect(await operator.decide(sudo.callId, { ...always, viewDigest })).toMatchObject({
    error: { code: 'countersign.gateway.not_offered' },
  });
  sudo.cancel();
  const plain = await fleet.agent.call(bash('echo plain'));
  const digest = await waitingView(operator, plain.callId);
  const approver = fleet.installation.client('local-approver');
  expect(await approver.decide(plain.callId, { ...always, viewDigest: digest })).toMatchObject({
    error: { status: 403 },
  });
  expect((await answerAndEnd(approver, plain, { answer: 'approve' })).state).toBe('done');
  expect((await verifyLog(fleet.installation)).text).toMatch(/^\d+ entries, 0 problems$/);
});
