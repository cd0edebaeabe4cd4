import { chownSync, mkdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import type { GatewayClient } from '../gateway-client.ts';
import { verifyLog } from './check.ts';
import { callUntil, commandOf, eventually, type FleetUnderTest, newSession, startFleet } from './fleet-under-test.ts';

vi.setConfig({ testTimeout: 90_000 });

let fleet: FleetUnderTest;
let approver: GatewayClient;
let folder: string;

beforeAll(async () => {
  fleet = await startFleet('layers');
  approver = fleet.installation.client('local-approver');
  folder = path.join(fleet.installation.data.sampleProject, '.countersign');
}, 90_000);
afterAll(() => fleet?.stop(), 60_000);
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Writes a permission file of the workspace. */
function put(layer: 'project' | 'local', content: object | string): void {
  mkdirSync(folder, { recursive: true });
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  writeFileSync(path.join(folder, `permissions.${layer}.json`), text);
}
const bash = (session: string, command: string) => ({ tool: 'bash', args: { command }, session });
const write = (session: string, name: string) => ({ tool: 'write', args: { path: name, content: 'x' }, session });
const run = async (session: string, command: string) => (await fleet.agent.call(bash(session, command))).result;
/** Sends a command until it ends in a state, because the files of a host are read at most once a second. */
const runsTo = (session: string, command: string, state: string) =>
  eventually(async () => {
    const sent = await callUntil(fleet, bash(session, command), ['pending', 'dispatched']);
    if (sent.state === 'pending') sent.call.cancel();
    const end = await sent.call.result;
    return (sent.state === 'pending' ? 'pending' : end.state) === state ? end : undefined;
  });
const DENIES = { denyRules: [{ toolName: 'bash', pattern: 'make *' }] };

describe('a permission file of the workspace', () => {
  test('takes away from the next call on, by its digest in the record, and goes on doing so when it is gone', async () => {
    const session = await newSession(fleet);
    put('project', DENIES);
    expect(await runsTo(session, 'make all', 'denied')).toMatchObject({ decidedBy: 'rule' });
    rmSync(folder, { recursive: true });
    put('project', {});
    // A session that begins while the earlier version is still remembered holds it too.
    await eventually(async () =>
      (await run(await newSession(fleet), 'make all; true')).state === 'done' ? true : undefined,
    );
    expect((await run(session, 'make all')).state).toBe('denied');
  });

  test('never widens: what it allows is asked as before, and its modes and settings only tighten', async () => {
    const session = await newSession(fleet);
    const allows = { mode: 'yolo', approvalMode: 'full_access', allowRules: [{ toolName: 'write', pattern: '**' }] };
    put('project', allows);
    put('local', { ...allows, denyRules: [{ toolName: 'bash', pattern: 'seen *' }] });
    await runsTo(session, 'seen it', 'denied');
    const waits = await callUntil(fleet, write(session, 'a.txt'), ['pending']);
    expect(waits.state).toBe('pending');
    waits.call.cancel();
  });

  test.each([
    ['text that is no JSON', '{"mode": "strict"'],
    ['a key twice', '{"mode":"strict","mode":"yolo"}'],
    ['a word of trust', '{"trusted":true}'],
    ['a part of the policy of the organisation', '{"ceilings":{"mode":"yolo"}}'],
    ['bytes that are no text', '\u0000\u0001'],
  ])('with %s makes every call ask, and says which file', async (_, content) => {
    const session = await newSession(fleet);
    put('project', content);
    const waits = await eventually(async () => {
      const sent = await callUntil(fleet, bash(session, 'true'), ['pending']);
      return sent.state === 'pending' ? sent : undefined;
    });
    const shown = await approver.callById(waits.call.callId);
    expect(JSON.stringify(shown.ok && shown.value.view)).toContain('permissions.project.json');
    waits.call.cancel();
  });

  test('that is a link makes every call ask', async () => {
    mkdirSync(folder, { recursive: true });
    symlinkSync('/etc/passwd', path.join(folder, 'permissions.local.json'));
    await runsTo(await newSession(fleet), 'true', 'pending');
  });
});

type Shown = { files: { layer: string; digest: string; state: string }[] };
const shown = async (session: string) => (await commandOf(fleet, 'trust', 'show', session)) as Shown;
const stateOf = async (session: string) => (await shown(session)).files.map(({ state }) => state);

describe('trust of a file', () => {
  const ALLOWS = { allowRules: [{ toolName: 'write', pattern: '**' }] };
  const written = (session: string, name: string, state: string) =>
    eventually(async () => {
      const sent = await callUntil(fleet, write(session, name), ['pending', 'dispatched']);
      if (sent.state === 'pending') sent.call.cancel();
      return (sent.state === 'pending' ? 'pending' : (await sent.call.result).state) === state ? true : undefined;
    });

  test('holds for exactly one content, ends when the file changes, and does not come back with the old content', async () => {
    const session = await newSession(fleet);
    put('project', ALLOWS);
    const [file] = (await shown(session)).files;
    expect(file).toMatchObject({ layer: 'project', state: 'tightens' });
    const digest = file?.digest ?? '';
    await expect(commandOf(fleet, 'trust', 'file', session, 'project', 'f'.repeat(64))).rejects.toThrow('stale_view');
    await expect(commandOf(fleet, 'trust', 'file', session, 'local', digest)).rejects.toThrow('stale_view');
    expect(await commandOf(fleet, 'trust', 'file', session, 'project', digest)).toMatchObject({ state: 'trusted' });
    await written(session, 'trusted.txt', 'done');
    const explained = await commandOf(
      fleet,
      ...['policy', 'explain', '--session', session, '--tool', 'write', '--value', 'b'],
    );
    expect(explained).toMatchObject({ decision: { effect: 'allow' }, files: [{ digest, state: 'trusted' }] });
    put('project', { ...ALLOWS, description: 'changed' });
    await written(session, 'changed.txt', 'pending');
    put('project', ALLOWS);
    await eventually(async () =>
      (await shown(session)).files.some((one) => one.digest === digest) ? true : undefined,
    );
    expect(await stateOf(session)).toEqual(['tightens']);
    await written(session, 'again.txt', 'pending');
  });

  test('can be revoked, and only an operator can give it', async () => {
    const session = await newSession(fleet);
    put('local', ALLOWS);
    const digest = (await shown(session)).files[0]?.digest ?? '';
    const body = { session, layer: 'local', digest };
    expect(await approver.request('POST', '/v1/trust/files', z.unknown(), body)).toMatchObject({
      error: { status: 403 },
    });
    const given = (await commandOf(fleet, 'trust', 'file', session, 'local', digest)) as { id: string };
    await written(session, 'c.txt', 'done');
    expect(await commandOf(fleet, 'trust', 'revoke', given.id)).toMatchObject({ state: 'revoked' });
    expect((await callUntil(fleet, write(session, 'd.txt'), ['pending'])).state).toBe('pending');
  });

  test('brings nothing back that a session was told to let go, and lets nothing go by itself', async () => {
    const session = await newSession(fleet);
    put('project', DENIES);
    await runsTo(session, 'make all', 'denied');
    put('project', {});
    const held = await eventually(async () => {
      const { files } = await shown(session);
      return files.find(({ state }) => state === 'held');
    });
    expect((await run(session, 'make all')).state).toBe('denied');
    await commandOf(fleet, 'trust', 'release', session, held.digest);
    expect((await run(session, 'make all; true')).state).toBe('done');
  });
});

test('trust of a folder lets one agent work there until it is revoked', async () => {
  const { data } = fleet.installation;
  const project = path.join(path.dirname(data.sampleProject), 'other-project');
  mkdirSync(project);
  const { uid, gid } = statSync(data.sampleProject);
  chownSync(project, uid, gid);
  await expect(newSession(fleet, { project })).rejects.toThrow('unknown_root');
  await expect(commandOf(fleet, 'trust', 'folder', 'agent-sample', 'local', `${project}/none`)).rejects.toThrow();
  const calls = await approver.calls({ limit: 1 });
  const id = (calls.ok && calls.value[0]?.agent) || '';
  const given = (await commandOf(fleet, 'trust', 'folder', id, 'local', project)) as { id: string };
  const session = await newSession(fleet, { project });
  expect((await run(session, 'pwd')).state).toBe('done');
  const waits = await callUntil(fleet, write(session, 'x.txt'), ['pending']);
  await commandOf(fleet, 'trust', 'revoke', given.id);
  expect((await waits.call.result).state).toBe('withdrawn');
  expect((await run(session, 'pwd')).code).toBe('countersign.gateway.unknown_root');
});

test('a waiting call that a permission file now denies is withdrawn, and no other', async () => {
  const session = await newSession(fleet);
  const hit = await callUntil(fleet, write(session, 'hit.txt'), ['pending']);
  const kept = await callUntil(fleet, write(session, 'kept.txt'), ['pending']);
  put('local', { denyRules: [{ toolName: 'write', pattern: 'hit.txt' }] });
  expect(await hit.call.result).toMatchObject({ state: 'withdrawn', code: 'countersign.gateway.policy_changed' });
  expect(await approver.callById(kept.call.callId)).toMatchObject({ value: { state: 'pending' } });
  kept.call.cancel();
  expect((await verifyLog(fleet.installation)).text).toMatch(/^\d+ entries, 0 problems$/);
});
