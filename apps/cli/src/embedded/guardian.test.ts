import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { CallRequest } from '@countersign/agent';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import type { GatewayClient } from '../gateway-client.ts';
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

const KEY = 'key-of-the-environment-0123456789';
const MODEL = { modelProvider: 'local', modelName: 'judge' };
let fleet: FleetUnderTest;
let approver: GatewayClient;
let operator: GatewayClient;
let server: Server;
/** Empty: the model gives no verdict. */
let decision = 'approve';
/** What the model was last told. */
let told = '';
const keysSeen = new Set<string>();
/** Requests that the model leaves unanswered; undefined: it answers at once. */
let hanging: ServerResponse[] | undefined;
/** A request that holds this is never answered. */
const NEVER = 'never-answered';
/** Requests that reached the model. */
let requests = 0;
type Told = { type: string; data: { call: string; session: string; state: string } };
/** Notices that a channel got. */
const notices: Told[] = [];
const secrets = mkdtempSync(path.join(tmpdir(), 'countersign-channel-'));

function answerOf(response: ServerResponse): void {
  const content = decision === '' ? 'no verdict' : JSON.stringify({ decision, reason: 'as the test says' });
  const choices = [{ index: 0, message: { role: 'assistant', content, refusal: null }, finish_reason: 'stop' }];
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: 'judge', choices }));
}

function takeReview(body: string, response: ServerResponse): void {
  requests += 1;
  told = body;
  if (body.includes(NEVER)) return;
  if (hanging) hanging.push(response);
  else answerOf(response);
}

/** A model behind the chat completions protocol that says what the test wants, and the receiver of a channel at `/hook`. */
async function startModel(): Promise<string> {
  server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      if (request.url === '/hook') {
        notices.push(JSON.parse(body) as Told);
        return void response.end();
      }
      keysSeen.add(request.headers.authorization ?? '');
      takeReview(body, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

beforeAll(async () => {
  const url = await startModel();
  const secretFile = path.join(secrets, 'secret');
  writeFileSync(secretFile, `whsec_${randomBytes(24).toString('base64')}\n`, { mode: 0o600 });
  process.env.COUNTERSIGN_TEST_MODEL_KEY = KEY;
  const settings = `
guardian:
  providers:
    - { name: local, kind: openai, baseUrl: "${url}/v1", apiKeyVariable: COUNTERSIGN_TEST_MODEL_KEY, models: [judge], completion: once }
  limits: { denialsInRow: 2 }
review: { shadow: true, minCompared: 2, onFailed: ask_human }
channels:
  - { id: ops, kind: webhook, template: standard, url: "${url}/hook", secretFile: "${secretFile}" }
`;
  fleet = await startFleet('guardian', settings);
  approver = fleet.installation.client('local-approver');
  operator = fleet.installation.client('local-operator');
}, 120_000);
afterAll(async () => {
  await fleet?.stop();
  server?.closeAllConnections();
  server?.close();
  rmSync(secrets, { recursive: true, force: true });
}, 60_000);

const figures = z.object({
  models: z.array(
    z.looseObject({
      version: z.string(),
      compared: z.number(),
      agreed: z.number(),
      approvedButDenied: z.number(),
      standing: z.string(),
      proposal: z.unknown().optional(),
    }),
  ),
});
const agreement = async () => accepted(await approver.request('GET', '/v1/guardian/agreement', figures)).models[0];
const comparedUpTo = (count: number) =>
  eventually(async () => {
    const found = await agreement();
    return found && found.compared >= count ? found : undefined;
  });
const write = (session: string, name: string) => ({ tool: 'write', args: { path: name, content: 'x' }, session });
const standing = (body: object, by: GatewayClient = operator) =>
  by.request('POST', '/v1/guardian/standing', z.unknown(), body);

test('opinions on calls that people decide become figures, a list of differences and a proposal; an operator demotes', async () => {
  const session = await newSession(fleet, MODEL);
  const first = await fleet.agent.call(write(session, 'a.txt'));
  expect((await answerAndEnd(approver, first, { answer: 'approve', reason: '' })).state).toBe('done');
  expect(await comparedUpTo(1)).toMatchObject({ compared: 1, agreed: 1, standing: 'deciding' });
  const second = await fleet.agent.call(write(session, 'b.txt'));
  await answerAndEnd(approver, second, { answer: 'deny', reason: 'no' });
  const found = await comparedUpTo(2);
  expect(found).toMatchObject({ agreed: 1, approvedButDenied: 1, proposal: { rate: 0.5, compared: 2 } });
  const listed = accepted(
    await approver.request(
      'GET',
      '/v1/guardian/disagreements',
      z.object({ disagreements: z.array(z.looseObject({})) }),
    ),
  );
  expect(listed.disagreements).toMatchObject([
    { call: second.callId, opinion: 'approve', human: 'denied', tool: 'write' },
  ]);

  const auto = await newSession(fleet, { ...MODEL, approvalMode: 'auto' });
  const alone = await (await fleet.agent.call(write(auto, 'c.txt'))).result;
  expect(alone).toMatchObject({ state: 'done', decidedBy: 'guardian' });

  const demotion = { version: found.version, standing: 'advising', reason: 'differs too often' };
  expect((await standing(demotion, approver)).ok).toBe(false);
  expect((await standing(demotion)).ok).toBe(true);
  const asked = await fleet.agent.call(write(auto, 'd.txt'));
  await waitingView(approver, asked.callId);
  expect((await answerAndEnd(approver, asked, { answer: 'approve', reason: '' })).decidedBy).toBe('human');
  expect(await comparedUpTo(3)).toMatchObject({ standing: 'advising', agreed: 2 });

  expect((await standing({ ...demotion, standing: 'deciding' })).ok).toBe(true);
  const again = await (await fleet.agent.call(write(auto, 'e.txt'))).result;
  expect(again).toMatchObject({ state: 'done', decidedBy: 'guardian' });
  expect((await verifyLog(fleet.installation)).text).toMatch(/^\d+ entries, 0 problems$/);
}, 120_000);

test('the key of the environment reaches the model and no file of the installation', () => {
  expect([...keysSeen]).toEqual([`Bearer ${KEY}`]);
  const folder = fleet.installation.data.private;
  const holding = readdirSync(folder, { recursive: true, withFileTypes: true }).filter(
    (file) => file.isFile() && readFileSync(path.join(file.parentPath, file.name)).includes(KEY),
  );
  expect(holding.map(({ name }) => name)).toEqual([]);
});

test('the command shows figures and differences, and an operator changes the standing with it', async () => {
  const shown = z.object({ models: z.array(z.looseObject({ version: z.string(), standing: z.string() })) });
  const [model] = shown.parse(await commandOf(fleet, 'guardian', 'agreement')).models;
  expect(model?.version).toMatch(/^local\/judge@/);
  expect(await commandOf(fleet, 'guardian', 'disagreements')).toMatchObject({
    disagreements: [{ opinion: 'approve' }],
  });
  const change = ['guardian', 'standing', model?.version ?? '', 'advising', '--reason', 'by command'];
  expect(await commandOf(fleet, ...change)).toMatchObject({ standing: 'advising' });
  expect(await agreement()).toMatchObject({ standing: 'advising' });
  const back = { version: model?.version ?? '', standing: 'deciding', reason: 'the test goes on' };
  expect((await standing(back)).ok).toBe(true);
}, 120_000);

type Entry = { readonly type: string; readonly call?: string; readonly decision?: { readonly decided_by: string } };

/** What the record holds of one call. */
async function entriesOf(callId: string): Promise<Entry[]> {
  const exported = accepted(await fleet.installation.client('local-auditor').exportLog());
  const leaves = exported.split('\n').flatMap((line) => {
    const { leaf } = line === '' ? {} : (JSON.parse(line) as { leaf?: string });
    return leaf === undefined ? [] : [JSON.parse(Buffer.from(leaf, 'base64').toString()) as Entry];
  });
  return leaves.filter(({ call }) => call === callId);
}

const RULES = {
  mode: 'dev',
  ceilings: { mode: 'networked', fullAccess: true },
  denyRules: [{ toolName: 'bash', pattern: 'git push *' }],
  askRules: [
    { toolName: 'bash', pattern: 'cat *', reviewer: 'guardian' },
    { toolName: 'bash', pattern: 'uname *' },
    { toolName: 'bash', pattern: 'date *', reviewer: 'human' },
  ],
};
const publish = async (security: object) =>
  accepted(
    await fleet.installation.client('local-admin').request('PUT', '/v1/policy', z.unknown(), {
      text: JSON.stringify({ ...RULES, security: { auto_allow_bash_if_sandboxed: true, ...security } }),
      name: 'policy.json',
    }),
  );
const GUARD_OFF = { dangerous_command_guard: false };
const GUARD_ON = { dangerous_command_guard: true };
const HARDENED = { hardened_mode: true };

type Asked = Pick<CallRequest, 'tool' | 'args' | 'tighten'>;
const bash = (command: string, more: object = {}): Asked => ({ tool: 'bash', args: { command, ...more } });
const wider = (more: object) => bash('true', { reason: 'the test asks', ...more });

test('with `ask_human` a review that failed is put to a person: no approval, no denial, nothing said of its risk', async () => {
  const session = await newSession(fleet, { ...MODEL, approvalMode: 'auto' });
  const unknown = await newSession(fleet, { ...MODEL, modelName: 'unheard-of', approvalMode: 'auto' });
  decision = '';
  const failures = await Promise.all([
    callUntil(fleet, { ...write(session, 'h1.txt') }, ['pending']),
    callUntil(fleet, { ...write(unknown, 'h2.txt') }, ['pending']),
    callUntil(fleet, { ...write(session, `${NEVER}.txt`) }, ['pending']),
  ]);
  decision = 'approve';
  const reasons = ['malformed', 'misconfigured', 'timed_out'].map((category) => `guardian: ${category}: `);
  for (const [at, { call, state, events }] of failures.entries()) {
    expect([state, events.at(-1)?.reason]).toEqual(['pending', expect.stringContaining(reasons[at] ?? '')]);
    const kept = await entriesOf(call.callId);
    expect(kept.map(({ type }) => type)).toEqual(['call.received', 'approval.requested']);
    expect(JSON.stringify(kept)).not.toMatch(/"decision"|risk/);
    expect((await answerAndEnd(approver, call, { answer: 'approve', reason: '' })).decidedBy).toBe('human');
  }
  const [one] = failures;
  const decisions = (await entriesOf(one?.call.callId ?? '')).flatMap(({ decision: found }) => found?.decided_by ?? []);
  expect(decisions).toEqual(['human']);
  // A published policy states no `on_failed_review`: from here on a review that failed is a denial.
  await publish(GUARD_OFF);
}, 120_000);

test('while 200 reviews hang, every other call is decided, run and answered', async () => {
  const auto = await newSession(fleet, { ...MODEL, approvalMode: 'auto' });
  const manual = await newSession(fleet, MODEL);
  const waiting: ServerResponse[] = [];
  hanging = waiting;
  const reviewed = await Promise.all(
    Array.from({ length: 200 }, (_, at) =>
      fleet.agent.call({ tool: 'bash', args: { command: `sudo -n true ${at}` }, session: auto }),
    ),
  );
  let ended = 0;
  for (const call of reviewed) void call.result.then(() => (ended += 1));
  await eventually(async () => (waiting.length >= 8 ? true : undefined));
  // The queue is in order: what comes now is behind all 200, and they are in review before any of it is looked at.
  const free = await Promise.all(
    Array.from({ length: 8 }, () => fleet.agent.call({ tool: 'bash', args: { command: 'true' }, session: manual })),
  );
  const asked = await fleet.agent.call(write(manual, 'under-load.txt'));
  expect((await answerAndEnd(approver, asked, { answer: 'approve', reason: '' })).state).toBe('done');
  expect((await Promise.all(free.map((call) => call.result))).map(({ state }) => state)).toEqual(
    free.map(() => 'done'),
  );
  expect([ended, waiting.length]).toEqual([0, 8]);
  decision = '';
  hanging = undefined;
  for (const response of waiting) answerOf(response);
  const ends = await Promise.all(reviewed.map((call) => call.result));
  decision = 'approve';
  expect(ends.filter(({ state, decidedBy }) => state !== 'denied' || decidedBy !== 'guardian')).toEqual([]);
}, 120_000);

test('repeated denials stay denials, pause the turn, tell the channels and call a person; what waits then goes on after an answer', async () => {
  const session = await newSession(fleet, { ...MODEL, approvalMode: 'auto' });
  const run = { tool: 'bash', args: { command: 'true' }, session };
  decision = 'deny';
  const first = await (await fleet.agent.call(write(session, 'p1.txt'))).result;
  const second = await (await fleet.agent.call(write(session, 'p2.txt'))).result;
  expect([first, second].map(({ state, decidedBy }) => [state, decidedBy])).toEqual([
    ['denied', 'guardian'],
    ['denied', 'guardian'],
  ]);
  expect(second.reason).toContain('the turn is paused until a person looked');
  const paused = z.object({ sessions: z.array(z.looseObject({ id: z.string(), call: z.string() })) });
  expect(paused.parse(await commandOf(fleet, 'guardian', 'paused')).sessions).toMatchObject([
    { id: session, call: second.callId },
  ]);
  const pauses = () => notices.filter(({ type }) => type === 'turn.paused');
  await expect.poll(() => pauses().length, { timeout: 20_000 }).toBe(1);
  expect(pauses()[0]?.data).toMatchObject({ call: second.callId, session, state: 'denied' });
  decision = 'approve';
  // What the rules alone would have let run waits too.
  const held = await fleet.agent.call(run);
  expect((await answerAndEnd(approver, held, { answer: 'approve', reason: '' })).decidedBy).toBe('human');
  expect(await (await fleet.agent.call(run)).result).toMatchObject({ state: 'done', decidedBy: 'mode' });
  expect(await (await fleet.agent.call(write(session, 'p3.txt'))).result).toMatchObject({ decidedBy: 'guardian' });
  expect(paused.parse(await commandOf(fleet, 'guardian', 'paused')).sessions).toEqual([]);
}, 120_000);

test('a request that an operator states reaches the model as stated by a person, any other as stated by the agent', async () => {
  const session = await newSession(fleet, { ...MODEL, approvalMode: 'auto', requestText: 'what the agent says' });
  await (await fleet.agent.call(write(session, 'r1.txt'))).result;
  expect(told).toMatch(/request, stated by the agent.*what the agent says/);
  await commandOf(fleet, 'session', 'request', session, 'what the person says');
  await (await fleet.agent.call(write(session, 'r2.txt'))).result;
  expect(told).toMatch(/request, stated by a person.*what the person says/);
  expect(told).not.toContain('what the agent says');
}, 120_000);

test('a denial of the model is no policy denial and runs nothing', async () => {
  decision = 'deny';
  const auto = await newSession(fleet, { ...MODEL, approvalMode: 'auto' });
  const end = await (await fleet.agent.call(write(auto, 'f.txt'))).result;
  expect(end).toMatchObject({ state: 'denied', decidedBy: 'guardian' });
  decision = 'approve';
}, 120_000);

/** Kinds of ask, by the policy's security: which of them an approving model lifts, and which it never sees. */
const KINDS: readonly [
  security: object,
  lifted: readonly Asked[],
  stays: readonly Asked[],
  denied: readonly Asked[],
][] = [
  [
    GUARD_OFF,
    [write('', 'l1.txt'), bash('cat l1.txt'), bash('sudo -n true')],
    [
      ...[bash('uname -a'), bash('date -u'), bash('cat l1.txt && uname -a'), bash('cat l1.txt; git $VERB origin')],
      ...[bash('echo "open'), bash('echo a\u202eb'), bash('true;'.repeat(1_500))],
      ...[wider({ profile: 'networked', hosts: ['example.com'] }), wider({ profile: 'full-access' })],
      { ...bash('true'), tighten: 'ask' },
      { ...write('', 'l2.txt'), tighten: 'ask' },
    ],
    [bash('git push origin main'), bash('rm -rf /'), { ...bash('true'), tighten: 'deny' }],
  ],
  [GUARD_ON, [], [bash('rm -rf build')], [bash('sudo -n true')]],
  [HARDENED, [], [wider({ profile: 'networked', hosts: ['example.com'] })], [wider({ profile: 'full-access' })]],
];

test.each(KINDS)(
  'under %j a model that approves everything lifts the asks that it may, and is never asked about the others or a denial',
  async (security, lifted, stays, denied) => {
    decision = 'approve';
    await publish(security);
    const session = await newSession(fleet, { ...MODEL, approvalMode: 'auto' });
    for (const asked of lifted) {
      const before = requests;
      const end = await (await fleet.agent.call({ ...asked, session })).result;
      expect([asked, end.decidedBy, requests - before]).toEqual([asked, 'guardian', 1]);
    }
    const before = requests;
    for (const asked of stays) {
      const { state } = await callUntil(fleet, { ...asked, session }, ['pending']);
      expect([asked, state]).toEqual([asked, 'pending']);
    }
    for (const asked of denied) {
      const end = await (await fleet.agent.call({ ...asked, session })).result;
      expect([asked, end.state, end.decidedBy]).toEqual([asked, 'denied', 'rule']);
    }
    expect(requests - before).toBe(0);
  },
  120_000,
);
