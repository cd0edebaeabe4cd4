import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { type Agent, type CallOutcome, connectAgent } from '@countersign/agent';
import { makeId } from '@countersign/kernel';
import {
  CallCancel,
  CallEvent,
  CallPayload,
  CallSubmit,
  createIdentity,
  EnvelopeKind,
  type Identity,
  openEnvelope,
  openIdentity,
  rosterKey,
  sealTo,
  signEnvelope,
  subjects,
} from '@countersign/protocol';
import { connectNats, inboxPrefix, knownRoster, loadRoster, type NatsConnection } from '@countersign/service-kit';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { readRecordings } from '../commands/policy-recordings.ts';
import { enrolWith } from '../enrolment.ts';
import { accepted } from '../local-installation.ts';
import { approveWaiting, verifyLog } from './check.ts';
import { installationPath } from './data-folder.ts';
import { enrolSamples } from './enrol.ts';
import { type Installation, startInstallation } from './installation.ts';
import { readTokens } from './keys.ts';
import { endOf, runSamples, sampleAgent } from './samples.ts';

const root = mkdtempSync(path.join(process.getuid?.() === 0 ? '/var/lib' : homedir(), 'countersign-road-'));
const encode = (text: string) => new TextEncoder().encode(text);
const newCallId = () => makeId('call', Date.now(), randomBytes);
let installation: Installation;
let agent: Agent;
let identity: Identity;
let session = '';
let raw: NatsConnection;

beforeAll(async () => {
  // The run account must be able to enter the folders above its project.
  chmodSync(root, 0o711);
  installation = await startInstallation(root, () => undefined);
  await enrolSamples(installation);
  agent = await sampleAgent(installation);
  identity = await openIdentity(installation.keys.identities['agent-sample']);
  raw = await connectNats({
    url: installation.endpoints.natsUrl,
    seed: identity.seed,
    name: 'raw agent',
    inboxPrefix: inboxPrefix('agent', 'sample'),
  });
  const opened = await agent.openSession({ project: installation.data.sampleProject, host: 'local' });
  if (!opened.ok) throw new Error(opened.error.message);
  session = opened.value.sessionId;
}, 90_000);

afterAll(async () => {
  await agent?.close();
  await raw?.close();
  await installation?.stop();
  rmSync(root, { recursive: true, force: true });
}, 60_000);

const call = (tool: string, args: object, callId?: string) =>
  agent.call({ tool, args, session, ...(callId === undefined ? {} : { callId }) });
const finish = async (tool: string, args: object): Promise<CallOutcome> => endOf(await call(tool, args));
const stdout = (outcome: CallOutcome) => new TextDecoder().decode(outcome.result?.stdout);
const inProject = (name: string) => path.join(installation.data.sampleProject, name);
const clean = async () => {
  expect((await verifyLog(installation)).text).toMatch(/^\d+ entries, 0 problems$/);
};

async function pendingView(callId: string): Promise<string> {
  const approver = installation.client('local-approver');
  let digest = '';
  await expect
    .poll(async () => {
      const found = await approver.callById(callId);
      digest = found.ok && found.value.state === 'pending' ? (found.value.viewDigest ?? '') : '';
      return digest;
    })
    .not.toBe('');
  return digest;
}

/** Publishes bytes as the agent's account and waits for the signed answer to `callId`. */
async function answerTo(callId: string, messages: readonly Uint8Array[]): Promise<CallEvent> {
  const gatewayKey = rosterKey(
    loadRoster(installation.keys.rosterFile, installation.endpoints.rootKey),
    'gateway',
  ).signKey;
  const subscription = raw.subscribe(`cs.v1.event.sample.>`);
  for (const message of messages) raw.publish(subjects.call('sample'), message);
  try {
    for await (const message of subscription) {
      const opened = openEnvelope(message.data, {
        kind: EnvelopeKind.EVENT,
        subject: message.subject,
        issuer: gatewayKey,
        nowMs: Date.now(),
      });
      const event = opened.ok ? CallEvent.decode(opened.value.body) : undefined;
      if (event?.callId === callId) return event;
    }
    throw new Error('no answer');
  } finally {
    subscription.unsubscribe();
  }
}

async function submission(
  callId: string,
  tool: string,
  args: string,
  { signer = identity, tighten = '' }: { signer?: Identity; tighten?: string } = {},
): Promise<Uint8Array> {
  const control = rosterKey(loadRoster(installation.keys.rosterFile, installation.endpoints.rootKey), 'control');
  const payload = CallPayload.encode({ salt: randomBytes(32), arguments: encode(args) }).finish();
  const body = CallSubmit.encode(
    CallSubmit.fromPartial({
      callId,
      sessionId: session,
      tool,
      executor: 'runner',
      tighten,
      sealedPayload: await sealTo(control.sealKey, payload, callId),
    }),
  ).finish();
  return signEnvelope(signer, { kind: EnvelopeKind.CALL, subject: subjects.call('sample'), body, nowMs: Date.now() });
}

function pidOf(name: string): number {
  const file = path.join(installation.data.private, 'run/processes.json');
  const { children } = JSON.parse(readFileSync(file, 'utf8')) as {
    children: { name: string; pid: number }[];
  };
  const found = children.find((child) => child.name === name);
  if (!found) throw new Error(`no process ${name}`);
  return found.pid;
}

describe('the road', () => {
  test("every sample call ends as the product promises, and README's block is what they print", async () => {
    const { lines, waiting } = await runSamples(installation, agent, () => undefined);
    await pendingView(waiting.callId);
    const { deadlineMs } = accepted(await installation.client('local-approver').callById(waiting.callId));
    expect(Number(deadlineMs)).toBeGreaterThan(Date.now() + 6 * 24 * 3_600_000);
    lines.push(await approveWaiting(installation, waiting), await verifyLog(installation));
    expect(lines.filter((line) => !line.asExpected)).toEqual([]);
    const printed = lines.map((line) =>
      `${line.title.padEnd(24)} ${line.text}`.replaceAll(root, '<data>').replace(/\d+ entries/, 'N entries'),
    );
    const readme = readFileSync(path.join(installationPath(), 'README.md'), 'utf8');
    expect(/```text\n([\s\S]*?)\n```/.exec(readme)?.[1]?.split('\n')).toEqual(printed);
  });

  test('two approvals of one call at once: one decision, one execution, the loser is told who won', async () => {
    const submitted = await call('write', { path: 'twice.txt', content: 'once\n' });
    const viewDigest = await pendingView(submitted.callId);
    const answers = await Promise.all(
      (['local-approver', 'local-operator'] as const).map((name) =>
        installation.client(name).decide(submitted.callId, { answer: 'approve', viewDigest }),
      ),
    );
    const losers = answers.filter((answer) => !answer.ok);
    expect(losers.length).toBe(1);
    const loser = losers[0];
    expect(loser && !loser.ok ? [loser.error.status, loser.error.winner?.startsWith('local-')] : []).toEqual([
      409,
      true,
    ]);
    expect((await endOf(submitted)).state).toBe('done');
    expect(readFileSync(inProject('twice.txt'), 'utf8')).toBe('once\n');
    await clean();
  });

  test('a denial reaches the agent with its reason, and nothing runs', async () => {
    const submitted = await call('write', { path: 'denied.txt', content: 'x' });
    const viewDigest = await pendingView(submitted.callId);
    await installation
      .client('local-approver')
      .decide(submitted.callId, { answer: 'deny', reason: 'not today', viewDigest });
    expect(await endOf(submitted)).toMatchObject({ state: 'denied', decidedBy: 'human', reason: 'not today' });
    expect(existsSync(inProject('denied.txt'))).toBe(false);
  });

  test('cancel ends a waiting call; a late approval is refused', async () => {
    const submitted = await call('write', { path: 'late.txt', content: 'x' });
    const viewDigest = await pendingView(submitted.callId);
    submitted.cancel('changed my mind');
    expect((await endOf(submitted)).state).toBe('cancelled');
    const late = await installation
      .client('local-approver')
      .decide(submitted.callId, { answer: 'approve', viewDigest });
    expect(late.ok ? 200 : late.error.status).toBe(409);
    expect(existsSync(inProject('late.txt'))).toBe(false);
  });

  test('a file that changed after the request is not overwritten', async () => {
    await finish('bash', { command: 'echo first > changed.txt' });
    const submitted = await call('write', { path: 'changed.txt', content: 'agent\n' });
    const viewDigest = await pendingView(submitted.callId);
    await finish('bash', { command: 'echo user > changed.txt' });
    await installation.client('local-approver').decide(submitted.callId, { answer: 'approve', viewDigest });
    expect((await endOf(submitted)).state).toBe('refused');
    expect(readFileSync(inProject('changed.txt'), 'utf8')).toBe('user\n');
  });

  test('a running command is stopped by cancel with its whole tree', async () => {
    const submitted = await call('bash', { command: '(sleep 2; echo late > survived.txt) & sleep 30' });
    await expect
      .poll(async () => {
        const found = await installation.client('local-approver').callById(submitted.callId);
        return found.ok ? found.value.state : '';
      })
      .toBe('dispatched');
    await expect.poll(() => submitted.cancel('stop'), { timeout: 100 }).toBe(undefined);
    expect((await endOf(submitted)).state).toMatch(/^(stopped|withdrawn)$/);
    await finish('bash', { command: 'sleep 2.5' });
    expect(existsSync(inProject('survived.txt'))).toBe(false);
  });
});

test('one trace id follows a call through the logs of gateway, guardian and runner and into the record', async () => {
  const trace = randomBytes(16).toString('hex');
  const traceparent = `00-${trace}-${randomBytes(8).toString('hex')}-01`;
  await endOf(await agent.call({ tool: 'bash', args: { command: 'true' }, session, traceparent }));
  const opened = await agent.openSession({
    project: installation.data.sampleProject,
    host: 'local',
    approvalMode: 'auto',
  });
  if (!opened.ok) throw new Error(opened.error.message);
  const args = { path: 'traced.txt', content: 'x' };
  await endOf(await agent.call({ tool: 'write', args, session: opened.value.sessionId, traceparent }));
  const log = (name: string) => readFileSync(path.join(installation.data.private, `logs/${name}.log`), 'utf8');
  expect(['gateway', 'guardian', 'runner'].filter((name) => !log(name).includes(trace))).toEqual([]);
  const exported = await installation.client('local-auditor').exportLog();
  const leaves = exported.ok ? exported.value.split('\n').filter(Boolean) : [];
  const texts = leaves.map((line) =>
    Buffer.from((JSON.parse(line) as { leaf?: string }).leaf ?? '', 'base64').toString(),
  );
  expect(texts.filter((text) => text.includes(`"trace":"${trace}"`)).length).toBe(2);
});

test('a new policy can be tried on the calls of an export; what a person denied and it would allow is flagged', async () => {
  const waiting = await call('write', { path: 'tried.txt', content: 'secret-content' });
  const viewDigest = await pendingView(waiting.callId);
  const denied = await installation
    .client('local-approver')
    .decide(waiting.callId, { answer: 'deny', reason: 'not today', viewDigest });
  expect(denied.ok).toBe(true);
  await endOf(waiting);
  const exported = await installation.client('local-auditor').exportLog();
  const folder = mkdtempSync(path.join(root, 'export-'));
  writeFileSync(path.join(folder, 'log.ndjson'), exported.ok ? exported.value : '');
  expect(readFileSync(path.join(folder, 'log.ndjson'), 'utf8')).not.toContain('secret-content');
  const { calls, withoutArguments } = readRecordings(folder);
  expect(withoutArguments).toBe(0);
  expect(calls.find((line) => line.id === waiting.callId)).toMatchObject({
    agent: 'sample',
    call: { tool: 'write', args: { path: 'tried.txt' } },
    effect: 'ask',
    human: 'denied',
    session: { project: installation.data.sampleProject },
  });
  const policy = path.join(folder, 'new.yaml');
  writeFileSync(policy, 'allowRules:\n  - { toolName: write, pattern: tried.txt }\n');
  const main = path.join(import.meta.dirname, '../main.ts');
  const { status, stdout: said } = spawnSync(
    process.execPath,
    [main, 'policy', 'simulate', '--calls', folder, '--policy', policy],
    { encoding: 'utf8' },
  );
  expect(said).toContain('WARNING: 1 calls that a person denied would be allowed');
  expect(said).toContain(`sample write ${waiting.callId} "tried.txt"`);
  expect(said).toMatch(/^ask -> allow: [1-9]/m);
  expect(status).toBe(1);
});

/** Requests that gateway and audit exchanged so far, without those of the sweep and of readiness. */
async function auditRequests(): Promise<Record<string, number>> {
  const authorization = `Bearer ${readTokens(installation.data)['local-auditor']}`;
  const answer = await fetch(new URL('/metrics', installation.endpoints.http), { headers: { authorization } });
  const found = (await answer.text()).matchAll(/^countersign_audit_requests_total\{rpc="(\w+)"\} (\d+)$/gm);
  const counts = [...found].map(([, rpc = '', count]) => [rpc, Number(count)] as const);
  return Object.fromEntries(counts.filter(([rpc]) => !['listCalls', 'getCheckpoint'].includes(rpc)));
}

test('an auto-allowed call costs five requests to the record, two of them appends, from submit to result', async () => {
  const spentByOne = async () => {
    const before = await auditRequests();
    expect((await finish('bash', { command: 'true' })).state).toBe('done');
    const spent = Object.entries(await auditRequests()).map(
      ([rpc, count]) => [rpc, count - (before[rpc] ?? 0)] as const,
    );
    return Object.fromEntries(spent.filter(([, count]) => count > 0));
  };
  // A slow machine makes the agent send its call again, which is answered by further reads; a quiet try has none.
  await expect.poll(spentByOne, { timeout: 20_000 }).toEqual({ append: 2, getCall: 2, listDocuments: 1 });
});

describe('a hostile or careless agent', () => {
  test.each([
    ['a duplicate key', 'read', '{"path":"a","path":"b"}', 'countersign.gateway.invalid_arguments', /twice/],
    ['an unknown key', 'read', '{"path":"a","extra":1}', 'countersign.gateway.invalid_arguments', /extra/],
    ['text that is not JSON', 'read', '{path:1}', 'countersign.gateway.invalid_arguments', /./],
    ['an empty command', 'bash', '{"command":""}', 'countersign.gateway.invalid_arguments', /command/],
    ['an unknown tool', 'teleport', '{}', 'countersign.gateway.unknown_tool', /teleport/],
  ])('%s is rejected with a clear error', async (_name, tool, args, code, message) => {
    const callId = newCallId();
    const event = await answerTo(callId, [await submission(callId, tool, args)]);
    expect(event).toMatchObject({ state: 'rejected', code });
    expect(event.reason).toMatch(message);
  });

  test.each(['den', 'DENY', 'deny ', 'allow', 'none'])(
    'a call that asks to be tightened to `%s`, which nobody knows, is rejected and does not run',
    async (tighten) => {
      const callId = newCallId();
      const event = await answerTo(callId, [
        await submission(callId, 'bash', '{"command":"echo x > loose.txt"}', { tighten }),
      ]);
      expect(event).toMatchObject({ state: 'rejected', code: 'countersign.gateway.invalid_arguments' });
      expect(event.reason).toMatch(/neither `ask` nor `deny`/);
      expect(existsSync(inProject('loose.txt'))).toBe(false);
    },
  );

  test('a resend is answered from the record and runs nothing again', async () => {
    const callId = newCallId();
    const message = await submission(callId, 'bash', '{"command":"echo x >> resent.txt"}');
    for (let sent = 0; sent < 5; sent += 1) raw.publish(subjects.call('sample'), message);
    await expect
      .poll(async () => {
        const found = await installation.client('local-approver').callById(callId);
        return found.ok ? found.value.state : '';
      })
      .toBe('done');
    expect((await answerTo(callId, [message])).state).toBe('done');
    expect(readFileSync(inProject('resent.txt'), 'utf8')).toBe('x\n');
  });

  test('a message signed by another key, malformed or too large leads to nothing, and the service stays up', async () => {
    const stranger = await openIdentity(await createIdentity('agent', 'sample'));
    const forged = newCallId();
    raw.publish(subjects.call('sample'), await submission(forged, 'bash', '{"command":"true"}', { signer: stranger }));
    raw.publish(subjects.call('sample'), randomBytes(100));
    raw.publish(subjects.call('sample'), new Uint8Array());
    const asCancel = signEnvelope(identity, {
      kind: EnvelopeKind.CANCEL,
      subject: subjects.cancel('sample'),
      body: CallCancel.encode(CallCancel.fromPartial({ callId: forged })).finish(),
      nowMs: Date.now(),
    });
    raw.publish(subjects.call('sample'), asCancel);
    expect((await finish('bash', { command: 'echo up' })).state).toBe('done');
    const found = await installation.client('local-approver').callById(forged);
    expect(found.ok ? 200 : found.error.status).toBe(404);
  });

  test('the HTTP interface refuses strangers, and a login link works once', async () => {
    const at = (route: string, init: RequestInit = {}) =>
      fetch(new URL(route, installation.endpoints.http), { redirect: 'manual', ...init });
    for (const route of ['/v1/me', '/v1/calls', '/v1/calls/call_x', '/v1/hosts', '/v1/events', '/v1/audit/export']) {
      expect([route, (await at(route)).status]).toEqual([route, 401]);
    }
    for (const route of ['/v1/members', '/v1/login-links', '/v1/calls/call_x/cancel']) {
      const answer = await at(route, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' });
      expect([route, [400, 401].includes(answer.status)]).toEqual([route, true]);
    }
    const link = await installation.client('local-operator').loginPath();
    if (!link.ok) throw new Error(link.error.detail);
    const first = await at(link.value);
    expect([first.status, (await at(link.value)).status]).toEqual([302, 401]);
    const cookie = (first.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
    const decision = {
      method: 'POST',
      headers: { cookie, 'content-type': 'application/json' },
      body: JSON.stringify({ answer: 'approve', viewDigest: '0'.repeat(64) }),
    };
    expect((await at('/v1/me', { headers: { cookie } })).status).toBe(200);
    expect((await at('/v1/calls/call_x/decision', decision)).status).toBe(401);
  });
});

describe('another agent', () => {
  let mallory: Agent;
  let hers: Identity;
  let hersRaw: NatsConnection;

  beforeAll(async () => {
    const { endpoints, keys, data } = installation;
    const member = {
      role: 'agent',
      id: 'mallory',
      principal: 'mallory-owner',
      hosts: ['local'],
      roots: { local: [data.sampleProject] },
      tools: ['bash', 'read', 'write'],
      queues: ['default'],
      task: '',
    };
    const operator = installation.client('local-operator');
    const invited = await operator.request('POST', '/v1/invitations', z.object({ text: z.string() }), { member });
    if (!invited.ok) throw new Error(invited.error.detail);
    const file = await createIdentity('agent', 'mallory');
    await enrolWith(endpoints.http, invited.value.text, file);
    hers = await openIdentity(file);
    const roster = knownRoster({ rosterFile: keys.rosterFile, rootKey: endpoints.rootKey });
    const { natsUrl } = endpoints;
    const inbox = inboxPrefix('agent', 'mallory');
    hersRaw = await vi.waitFor(() => connectNats({ url: natsUrl, seed: hers.seed, name: 'raw', inboxPrefix: inbox }), {
      timeout: 20_000,
      interval: 250,
    });
    mallory = await connectAgent({ natsUrl, identity: hers, roster });
  }, 60_000);
  afterAll(async () => {
    await mallory?.close();
    await hersRaw?.close();
  });

  test("cannot take another agent's call id, nor use its session", async () => {
    const submitted = await call('write', { path: 'mine.txt', content: 'mine\n' });
    const viewDigest = await pendingView(submitted.callId);
    const opened = await mallory.openSession({ project: installation.data.sampleProject, host: 'local' });
    if (!opened.ok) throw new Error(opened.error.message);
    const taken = await mallory.call({
      tool: 'bash',
      args: { command: 'echo hers > mine.txt' },
      session: opened.value.sessionId,
      callId: submitted.callId,
    });
    expect(await taken.result).toMatchObject({ state: 'rejected', code: 'countersign.audit.conflict' });
    const borrowed = await mallory.call({ tool: 'bash', args: { command: 'echo hers > mine.txt' }, session });
    expect(await borrowed.result).toMatchObject({ state: 'rejected', code: 'countersign.gateway.unknown_session' });
    await installation.client('local-approver').decide(submitted.callId, { answer: 'approve', viewDigest });
    expect((await endOf(submitted)).state).toBe('done');
    expect(readFileSync(inProject('mine.txt'), 'utf8')).toBe('mine\n');
    await clean();
  });

  test('cannot speak as another: its signed message on her subject, and hers on its, lead to nothing', async () => {
    const replayed = newCallId();
    const signedByVictim = await submission(replayed, 'bash', '{"command":"true"}');
    hersRaw.publish(subjects.call('mallory'), signedByVictim);
    const forged = newCallId();
    hersRaw.publish(subjects.call('sample'), await submission(forged, 'bash', '{"command":"true"}', { signer: hers }));
    await hersRaw.flush();
    const honest = await mallory.call({ tool: 'bash', args: { command: 'true' }, session: 'ses_none' });
    expect((await honest.result).state).toBe('rejected');
    expect((await finish('bash', { command: 'true' })).state).toBe('done');
    for (const callId of [replayed, forged]) {
      const found = await installation.client('local-operator').callById(callId);
      expect(found.ok ? 200 : found.error.status).toBe(404);
    }
  });
});

test('full_access is refused above the ceiling when a session is opened', async () => {
  const { sampleProject: project } = installation.data;
  const opened = await agent.openSession({ project, host: 'local', approvalMode: 'full_access' });
  expect(opened.ok ? opened.value : opened.error.message).toMatch(/full_access/);
});

describe('crashes', () => {
  test.each(['gateway', 'audit', 'runner', 'nats-server', 'postgres'])(
    'a kill of %s under load loses no call and repeats no effect',
    async (name) => {
      const before = Date.now();
      const calls = await Promise.all(
        Array.from({ length: 12 }, (_, at) => call('bash', { command: `echo ${at} >> effects-${name}.txt` })),
      );
      process.kill(pidOf(name), 'SIGKILL');
      const outcomes = await Promise.all(calls.map(endOf));
      const states = outcomes.map(({ state }) => state);
      expect(states.filter((state) => !['done', 'interrupted'].includes(state))).toEqual([]);
      const lines = readFileSync(inProject(`effects-${name}.txt`), 'utf8')
        .trim()
        .split('\n');
      expect(new Set(lines).size).toBe(lines.length);
      const done = states.filter((state) => state === 'done').length;
      expect(lines.length).toBeGreaterThanOrEqual(done);
      expect((await finish('bash', { command: 'echo after' })).state).toBe('done');
      expect(Date.now()).toBeGreaterThan(before);
      await clean();
    },
    120_000,
  );

  test('a call that comes while its host starts again is decided, not refused', async () => {
    process.kill(pidOf('runner'), 'SIGKILL');
    const ends = await Promise.all([1, 2, 3].map(() => finish('read', { path: 'notes.txt' })));
    expect(ends.filter(({ state }) => state !== 'done')).toEqual([]);
  });
});

test('standard output of a command comes back exactly', async () => {
  const outcome = await finish('bash', { command: "printf 'a\\nb'; printf 'e' >&2; exit 3" });
  expect([outcome.state, stdout(outcome), outcome.result?.exitCode]).toEqual(['done', 'a\nb', 3]);
});
