import { chownSync, mkdirSync, statSync } from 'node:fs';
import path from 'node:path';
import type { PermissionUpdate } from '@countersign/agent';
import type { CallEvent } from '@countersign/protocol';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { type GatewayClient, waitForHost } from '../gateway-client.ts';
import { accepted } from '../local-installation.ts';
import { verifyLog } from './check.ts';
import { callUntil, commandOf, type FleetUnderTest, newSession, startFleet } from './fleet-under-test.ts';

vi.setConfig({ testTimeout: 60_000 });

let fleet: FleetUnderTest;
let operator: GatewayClient;
let admin: GatewayClient;

const POLICY = {
  mode: 'dev',
  allowedHosts: ['listed.example'],
  forbiddenHosts: ['evil.example'],
  denyRules: [{ toolName: 'bash', pattern: 'git push *' }],
  ceilings: { mode: 'networked', eternal: true },
};

beforeAll(async () => {
  fleet = await startFleet('updates');
  operator = fleet.installation.secondClient('local-operator');
  admin = fleet.installation.client('local-admin');
  const body = { text: JSON.stringify(POLICY), name: 'policy.json' };
  accepted(await admin.request('PUT', '/v1/policy', z.unknown(), body));
  accepted(await waitForHost(operator, 'local', 30_000));
}, 90_000);
afterAll(() => fleet?.stop(), 60_000);

const shownSchema = z.looseObject({
  id: z.string(),
  state: z.string(),
  says: z.array(z.string()).optional(),
  digest: z.string().optional(),
});
const get = async (id: string) => accepted(await operator.request('GET', `/v1/requests/${id}`, shownSchema));
const approve = (id: string, digest: string, by = operator) =>
  by.request('POST', `/v1/requests/${id}/approve`, shownSchema, { digest });
const bash = (session: string, command: string) => ({ tool: 'bash', args: { command }, session });
const write = (session: string, name: string) => ({ tool: 'write', args: { path: name, content: 'x' }, session });
const allow = (pattern: string, destination: PermissionUpdate['destination'] = 'session'): PermissionUpdate => ({
  ...{ type: 'addRules', effect: 'allow', destination },
  rules: [{ toolName: 'write', pattern }],
});
const setMode = (mode: string): PermissionUpdate => ({ type: 'setMode', mode, destination: 'session' });

/** Asks as the agent; `waits` resolves with the request's id once it is at the desk. */
function ask(session: string, updates: readonly PermissionUpdate[]) {
  const { promise: waits, resolve } = Promise.withResolvers<string>();
  const onWaiting = ({ reason }: CallEvent) => resolve(/`(req_\w+)`/.exec(reason)?.[1] ?? '');
  const done = fleet.agent.requestPermissions({ session, updates, reason: 'the task needs it', onWaiting });
  return { waits, done };
}
async function askAndApprove(session: string, updates: readonly PermissionUpdate[]) {
  const { waits, done } = ask(session, updates);
  const shown = await get(await waits);
  accepted(await approve(shown.id, shown.digest ?? ''));
  return { shown, end: await done };
}
async function child(parent: string): Promise<string> {
  const token = await fleet.agent.issueChildToken(parent);
  if (!token.ok) throw new Error(token.error.message);
  return newSession(fleet, { parent: { session: parent, token: token.value } });
}
const refusal = async (session: string, updates: readonly PermissionUpdate[]) => {
  const done = await fleet.agent.requestPermissions({ session, updates });
  return done.ok ? 'approved' : done.error.code;
};
/** State of a write, which the mode asks about; a waiting one is cancelled. */
async function writes(session: string, name: string): Promise<string> {
  const sent = await callUntil(fleet, write(session, name), ['pending']);
  if (sent.state === 'pending') sent.call.cancel();
  return sent.state;
}

describe('a permission update that an agent asks for', () => {
  test('waits at the desk, says what would change, and holds for later calls only once a person approved it', async () => {
    const session = await newSession(fleet);
    const earlier = await callUntil(fleet, write(session, 'earlier.txt'), ['pending']);
    const { waits, done } = ask(session, [allow('made/*.txt'), setMode('networked')]);
    const shown = await get(await waits);
    expect(shown).toMatchObject({ state: 'waiting', kind: 'update', session, reason: 'the task needs it' });
    expect(shown.says).toEqual([
      `add allow \`write made/*.txt\`; for session \`${session}\`; no end`,
      'permission mode `dev` becomes `networked`',
    ]);
    expect(await writes(session, 'made/before.txt')).toBe('pending');
    expect(await approve(shown.id, '0'.repeat(64))).toMatchObject({
      error: { code: 'countersign.gateway.stale_view' },
    });
    const both = await Promise.all([operator, admin].map((by) => approve(shown.id, shown.digest ?? '', by)));
    expect(both.filter(({ ok }) => ok)).toHaveLength(1);
    expect(both.find(({ ok }) => !ok)).toMatchObject({ error: { code: 'countersign.gateway.already_decided' } });
    expect(await done).toEqual({ ok: true, value: { decidedBy: 'human' } });
    const log = accepted(await admin.exportLog())
      .split('\n')
      .filter(Boolean);
    const entries = log.map((line) =>
      Buffer.from((JSON.parse(line) as { leaf?: string }).leaf ?? '', 'base64').toString(),
    );
    const about = entries
      .filter((entry) => entry.includes(shown.id))
      .map((entry) => /"what":"([\w.]+)"/.exec(entry)?.[1]);
    expect(about).toEqual(['permission.requested', 'permission.approved', 'rule.published', undefined]);
    expect(entries.filter((entry) => entry.includes(shown.id)).at(-1)).toContain('"session.changed"');
    const end = await (await fleet.agent.call(write(session, 'made/after.txt'))).result;
    expect(end).toMatchObject({ state: 'done', decidedBy: 'rule' });
    expect(await writes(session, 'other.txt')).toBe('pending');
    expect(await writes(await newSession(fleet), 'made/other.txt')).toBe('pending');
    expect(await operator.callById(earlier.call.callId)).toMatchObject({ value: { state: 'pending' } });
    earlier.call.cancel();
  });

  test('that is denied tells the agent why, and a repetition is answered alike', async () => {
    const session = await newSession(fleet);
    const { waits, done } = ask(session, [setMode('networked')]);
    const id = await waits;
    const deny = () =>
      operator.request('POST', `/v1/requests/${id}/deny`, shownSchema, { reason: 'not for this task' });
    expect(await deny()).toMatchObject({ ok: true, value: { state: 'denied' } });
    expect(await done).toMatchObject({
      error: { code: 'countersign.gateway.permission_denied', message: expect.stringContaining('not for this task') },
    });
    expect(await deny()).toMatchObject({
      error: { code: 'countersign.gateway.already_decided', winner: 'local-operator' },
    });
  });

  test.each<[string, PermissionUpdate, string]>([
    ['a mode above the ceiling', setMode('yolo'), 'ceiling'],
    ['full access', { type: 'setMode', approvalMode: 'full_access', destination: 'session' }, 'ceiling'],
    ['a forbidden host', { type: 'addHosts', hosts: ['EVIL.example:443'], destination: 'session' }, 'ceiling'],
    ['the app-guard', { type: 'setSandboxBackend', backend: 'app-guard', destination: 'session' }, 'ceiling'],
    [
      'a backend of no self-test',
      { type: 'setSandboxBackend', backend: 'seatbelt', destination: 'session' },
      'not_offered',
    ],
    ['a lasting mode', { type: 'setMode', mode: 'networked', destination: 'project' }, 'not_offered'],
    ['what it has already', setMode('dev'), 'not_offered'],
    ['hidden characters', allow('a\u202eb'), 'invalid_arguments'],
    ['no host', { type: 'addHosts', hosts: ['https://'], destination: 'session' }, 'invalid_arguments'],
    ['a rule that is not there', { ...allow('x'), type: 'removeRules' } as PermissionUpdate, 'not_offered'],
    ['an unknown kind', { type: 'setCeiling' } as unknown as PermissionUpdate, 'invalid_arguments'],
  ])('is refused at once for %s, without troubling anybody', async (_, update, code) => {
    expect(await refusal(await newSession(fleet), [update])).toBe(`countersign.gateway.${code}`);
  });

  test('lifts no deny of the organisation', async () => {
    const session = await newSession(fleet);
    await askAndApprove(session, [
      {
        type: 'addRules',
        effect: 'allow',
        destination: 'session',
        rules: [{ toolName: 'bash', pattern: 'git push *' }],
      },
    ]);
    expect((await (await fleet.agent.call(bash(session, 'git push origin'))).result).state).toBe('denied');
  });

  test('gives a child nothing that an ancestor has not, and takes it when the ancestor loses it', async () => {
    const root = await newSession(fleet);
    const last = await child(root);
    for (const update of [setMode('networked'), allow('kid/**'), allow('kid/**', 'local')])
      expect(await refusal(last, [update])).toBe('countersign.gateway.ceiling');
    await askAndApprove(root, [allow('kid/**')]);
    expect(await writes(last, 'kid/a.txt')).toBe('pending');
    await askAndApprove(last, [allow('kid/**')]);
    expect(await writes(last, 'kid/b.txt')).toBe('done');
    await askAndApprove(root, [{ type: 'replaceRules', effect: 'allow', rules: [], destination: 'session' }]);
    expect(await writes(last, 'kid/c.txt')).toBe('pending');
  });

  test('for a lasting destination holds for later sessions in its reach, until it is removed', async () => {
    const { shown } = await askAndApprove(await newSession(fleet), [allow('lasting/**', 'local')]);
    expect(shown.says?.[0]).toMatch(/for agent `\w+` for `sample` in `.+` on `local`; until \d{4}-\d\d-\d\d$/);
    const later = await newSession(fleet);
    expect(await writes(later, 'lasting/a.txt')).toBe('done');
    await askAndApprove(later, [{ ...allow('lasting/**', 'local'), type: 'removeRules' } as PermissionUpdate]);
    expect(await writes(await newSession(fleet), 'lasting/b.txt')).toBe('pending');
  });

  test('ends with its session', async () => {
    const session = await newSession(fleet);
    const { waits, done } = ask(session, [setMode('networked')]);
    const id = await waits;
    await fleet.agent.closeSession(session, 'over');
    expect(await done).toMatchObject({ error: { message: expect.stringContaining('cancelled') } });
    expect((await get(id)).state).toBe('cancelled');
  });
});

test('unattended mode approves modes up to networked and listed hosts for the session, also those that wait, and nothing else', async () => {
  const session = await newSession(fleet);
  const lasting = ask(session, [{ type: 'addHosts', hosts: ['listed.example'], destination: 'local' }]);
  const rule = ask(session, [allow('**')]);
  const unlisted = ask(session, [{ type: 'addHosts', hosts: ['other.example'], destination: 'session' }]);
  const mode = ask(session, [
    setMode('networked'),
    { type: 'addHosts', hosts: ['listed.example'], destination: 'session' },
  ]);
  const reviewer = ask(session, [{ type: 'setMode', approvalMode: 'auto', destination: 'session' }]);
  const waiting = await Promise.all([lasting, rule, unlisted, reviewer, mode].map(({ waits }) => waits));
  const modes = { eternal: true };
  accepted(await operator.request('POST', `/v1/sessions/${session}/modes`, z.unknown(), modes));
  expect(await mode.done).toEqual({ ok: true, value: { decidedBy: 'eternal' } });
  const states = await Promise.all(waiting.map(async (id) => (await get(id)).state));
  expect(states).toEqual(['waiting', 'waiting', 'waiting', 'waiting', 'approved']);
  await fleet.agent.closeSession(session);
});

test('an operator updates a session at once, and commands show what was asked and saved', async () => {
  const session = await newSession(fleet);
  const updated = await commandOf(fleet, 'session', 'update', session, '--allow', 'write op/**', '--mode', 'networked');
  expect(updated).toMatchObject({
    session,
    says: [expect.stringContaining('networked'), expect.stringContaining('op/**')],
  });
  expect(await writes(session, 'op/a.txt')).toBe('done');
  const { waits, done } = ask(session, [setMode('strict')]);
  const id = await waits;
  const listed = (await commandOf(fleet, 'requests', 'list')) as { requests: { id: string }[] };
  expect(listed.requests.map((one) => one.id)).toContain(id);
  expect(await commandOf(fleet, 'requests', 'approve', id)).toMatchObject({ id, state: 'approved' });
  expect((await done).ok).toBe(true);
  expect(await commandOf(fleet, 'session', 'show', session)).toMatchObject({
    permissionMode: 'strict',
    chain: [session],
  });
  const kid = await child(session);
  expect(await commandOf(fleet, 'session', 'children', session)).toMatchObject({
    sessions: [{ id: kid, parent: session }],
  });
  expect(await commandOf(fleet, 'session', 'modes', session, '--permission-mode', 'dev')).toMatchObject({
    permissionMode: 'dev',
  });
  expect(await commandOf(fleet, 'session', 'delete', session, '--reason', 'done')).toMatchObject({ state: 'closed' });
  const closed = (await commandOf(fleet, 'session', 'list', '--state', 'closed')) as { sessions: { id: string }[] };
  expect(closed.sessions.map((one) => one.id)).toEqual(expect.arrayContaining([kid, session]));
});

test('an agent in a folder that nobody trusted waits at the desk, and works there once a person trusted it', async () => {
  const folder = path.join(fleet.installation.data.sampleProject, 'elsewhere');
  mkdirSync(folder);
  const { uid, gid } = statSync(fleet.installation.data.sampleProject);
  chownSync(folder, uid, gid);
  const { promise: waits, resolve } = Promise.withResolvers<string>();
  const opening = fleet.agent.openSession({
    ...{ project: folder, host: 'local', untilTrusted: true },
    onWaiting: ({ requestId }) => resolve(requestId),
  });
  const id = await waits;
  const refused = await fleet.agent.openSession({ project: folder, host: 'local' });
  expect(refused).toMatchObject({
    error: { code: 'countersign.gateway.unknown_root', message: expect.stringContaining(id) },
  });
  const shown = await get(id);
  expect(shown).toMatchObject({
    kind: 'folder',
    path: folder,
    says: [expect.stringContaining(folder), expect.any(String)],
  });
  accepted(await approve(id, shown.digest ?? ''));
  const opened = await opening;
  if (!opened.ok) throw new Error(opened.error.message);
  expect((await (await fleet.agent.call(bash(opened.value.sessionId, 'pwd'))).result).state).toBe('done');
  const gone = await fleet.agent.openSession({ project: path.join(folder, 'gone'), host: 'local' });
  const asked = /`(req_\w+)`/.exec(gone.ok ? '' : gone.error.message)?.[1] ?? '';
  const { digest = '' } = await get(asked);
  expect(await approve(asked, digest)).toMatchObject({ error: { code: 'countersign.gateway.not_offered' } });
  expect((await verifyLog(fleet.installation)).text).toMatch(/^\d+ entries, 0 problems$/);
});
