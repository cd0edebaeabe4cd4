import type { CallRequest } from '@countersign/agent';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { accepted } from '../local-installation.ts';
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
let session = '';
beforeAll(async () => {
  fleet = await startFleet('executor');
  const { keys, data } = fleet.installation;
  const { id, publicKey: sign_key, sealPublicKey: seal_key } = keys.identities['agent-sample'];
  const member = { role: 'agent', id, sign_key, seal_key, principal: 'sample', hosts: ['local'], queues: ['default'] };
  const roots = { local: [data.sampleProject] };
  const tools = ['read', 'write', 'bash', 'mcp__files__list'];
  accepted(await fleet.installation.client('local-operator').join({ ...member, roots, tools, task: 'test' }));
  session = await newSession(fleet);
}, 90_000);
afterAll(() => fleet?.stop(), 60_000);

const own = (tool: string, args: object): CallRequest => ({ tool, args, session, executor: 'agent' });
const approver = () => fleet.installation.client('local-approver');

test('a call that needs nobody is handed over at once with a proof, and ends as its agent reports', async () => {
  const { callId, result } = await fleet.agent.call(own('read', { path: 'notes.txt' }));
  const outcome = await result;
  expect(outcome).toMatchObject({ state: 'handed_over', receipt: { callId, host: '' } });
  expect((await approver().callById(callId)).ok).toBe(true);
  expect(await fleet.agent.report({ callId, session, state: 'done', result: { ok: true } })).toBe('done');
  // A repetition is answered from the record.
  expect(await fleet.agent.report({ callId, session, state: 'failed' })).toBe('done');
});

test('a command that a sandbox would let pass asks when its agent runs it, and says that no sandbox holds it', async () => {
  const call = await fleet.agent.call(own('bash', { command: 'true' }));
  const viewDigest = await waitingView(approver(), call.callId);
  expect(accepted(await approver().callById(call.callId))).toMatchObject({
    executor: 'agent',
    sandbox: 'none',
    view: { profile: 'none' },
  });
  accepted(await approver().decide(call.callId, { answer: 'approve', viewDigest }));
  expect(await call.result).toMatchObject({ state: 'handed_over', decidedBy: 'human' });
  const reported = await commandOf(fleet, 'report', call.callId, 'done', '--session', session);
  expect(reported).toEqual({ callId: call.callId, state: 'done' });
});

test('a tool that no runner has is judged as an execute tool, if its agent may call it at all', async () => {
  const denied = await fleet.agent.call(own('mcp__files__list', { path: '/srv' }));
  const reason = 'not this folder';
  expect(await answerAndEnd(approver(), denied, { answer: 'deny', reason })).toMatchObject({ state: 'denied', reason });
  const stranger = await fleet.agent.call(own('mcp__other__list', {}));
  expect(await stranger.result).toMatchObject({ state: 'rejected', code: 'countersign.gateway.unknown_tool' });
  const badArguments = await fleet.agent.call(own('bash', { cmd: 'true' }));
  expect((await badArguments.result).state).toBe('rejected');
});

test('a cancel of a handed-over call asks its agent to stop, and the end is what the agent reports', async () => {
  const { call, events } = await callUntil(fleet, own('read', { path: 'notes.txt' }), ['handed_over']);
  expect(events.some(({ stopRequested }) => stopRequested)).toBe(false);
  accepted(await approver().cancel(call.callId, 'not needed any more'));
  expect(await fleet.agent.report({ callId: call.callId, session, state: 'failed', reason: 'stopped' })).toBe('failed');
  const found = await eventually(async () => {
    const answer = await approver().callById(call.callId);
    return answer.ok && answer.value.state === 'failed' ? answer.value : undefined;
  });
  expect(found.reason).toBe('stopped');
});

test('a report about a call of a runner, or of nobody, changes nothing; the log tells one story of each call', async () => {
  const { call } = await callUntil(fleet, { tool: 'write', args: { path: 'a', content: 'x' }, session }, ['pending']);
  const forged = fleet.agent.report({ callId: call.callId, session, state: 'done' });
  forged.catch(() => undefined);
  expect(accepted(await approver().callById(call.callId)).state).toBe('pending');
  call.cancel();
  expect((await call.result).state).toBe('cancelled');
  expect((await verifyLog(fleet.installation)).text).toMatch(/^\d+ entries, 0 problems$/);
});
