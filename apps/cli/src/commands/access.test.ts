import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import {
  CallPayload,
  callDigest,
  canonicalEnvelope,
  EnvelopeKind,
  ERROR_CODES,
  Outcome,
  openIdentity,
  sealTo,
  signEnvelope,
  signReceipt,
  subjects,
  termsDigest,
  WorkOrder,
} from '@countersign/protocol';
import { connectNats, inboxPrefix } from '@countersign/service-kit';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { installationPath } from '../embedded/data-folder.ts';
import { enrolSamples } from '../embedded/enrol.ts';
import { waitingView } from '../embedded/fleet-under-test.ts';
import { type Installation, startInstallation } from '../embedded/installation.ts';
import { writePrivateFile } from '../embedded/private-file.ts';
import { endOf, sampleAgent } from '../embedded/samples.ts';
import { accepted } from '../local-installation.ts';

const run = promisify(execFile);
const root = mkdtempSync(path.join(process.getuid?.() === 0 ? '/var/lib' : homedir(), 'countersign-access-'));
let installation: Installation;
const children: ChildProcess[] = [];

beforeAll(async () => {
  chmodSync(root, 0o711);
  installation = await startInstallation(root, () => undefined);
  await enrolSamples(installation);
}, 90_000);

afterAll(async () => {
  for (const child of children) child.kill('SIGTERM');
  await installation?.stop();
  rmSync(root, { recursive: true, force: true });
}, 60_000);

type Ended = { code: number; stdout: string; stderr: string };

/** Runs the command line as a user would. */
async function countersign(...args: string[]): Promise<Ended> {
  const entry = path.join(installationPath(), 'apps/cli/src/main.ts');
  return run(process.execPath, [entry, '--data', root, ...args]).then(
    ({ stdout, stderr }) => ({ code: 0, stdout: stdout.trim(), stderr }),
    (error: Ended) => ({ code: error.code, stdout: error.stdout.trim(), stderr: error.stderr }),
  );
}

const file = (name: string) => path.join(root, name);

test('a token made on the command line works, is listed without its text, and ends when it is revoked', async () => {
  const made = JSON.parse((await countersign('--json', 'tokens', 'create', 'ci', '--role', 'viewer')).stdout) as {
    id: string;
    text: string;
  };
  const status = async () =>
    (await fetch(`${installation.endpoints.http}/v1/calls`, { headers: { authorization: `Bearer ${made.text}` } }))
      .status;
  expect(await status()).toBe(200);
  const list = (await countersign('tokens', 'list')).stdout;
  expect([list.includes(made.id), list.includes(made.text)]).toEqual([true, false]);
  expect((await countersign('tokens', 'revoke', made.id)).code).toBe(0);
  expect(await status()).toBe(401);
  expect((await countersign('tokens', 'create', 'x', '--role', 'king')).code).toBe(1);
});

test('an agent enrols its own keys with an invitation, reaches the broker, and its call runs', async () => {
  const project = installation.data.sampleProject;
  const invited = await countersign(
    ...['agent', 'invite', 'coder', '--principal', 'zoe', '--host', 'local', '--root', `local=${project}`],
    ...['--tool', 'read', 'bash', '--out', file('invitation')],
  );
  expect([invited.code, statSync(file('invitation')).mode & 0o777]).toEqual([0, 0o600]);
  const at = ['--gateway', installation.endpoints.http, '--invitation', file('invitation')];
  const enrolled = await countersign('agent', 'enroll', 'coder', ...at, '--out', file('coder'));
  expect(enrolled).toMatchObject({ code: 0 });
  expect(readFileSync(file('coder/identity.json'), 'utf8')).not.toContain(
    readFileSync(file('invitation'), 'utf8').trim(),
  );
  const identity = ['--agent', file('coder/agent.json')];
  await expect
    .poll(async () => (await countersign('session', 'open', '--project', project, ...identity)).code, {
      timeout: 60_000,
    })
    .toBe(0);
  const session = (await countersign('session', 'open', '--project', project, ...identity)).stdout;
  const called = await countersign('call', 'bash', '{"command":"echo enrolled"}', '--session', session, ...identity);
  expect([called.code, called.stdout.includes('enrolled')]).toEqual([0, true]);
  const again = await countersign('agent', 'enroll', 'coder', ...at, '--out', file('again'));
  expect([again.code, again.stderr.includes('was used')]).toEqual([1, true]);
}, 120_000);

test('an invitation whose root is another one enrols nobody here', async () => {
  await countersign('agent', 'invite', 'eve', '--principal', 'zoe', '--out', file('forged'));
  const text = readFileSync(file('forged'), 'utf8').trim();
  writePrivateFile(file('forged'), `${text.slice(0, -43)}${'A'.repeat(43)}`);
  const at = ['--gateway', installation.endpoints.http, '--invitation', file('forged')];
  const refused = await countersign('agent', 'enroll', 'eve', ...at, '--out', file('eve'));
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('root key is not the one')]);
});

test('a host enrols with an invitation, its runner starts from the written configuration and reports ready', async () => {
  await countersign('runner', 'invite', 'second', '--principal', 'ops', '--out', file('host-invitation'));
  const { runAccount, home } = installation.data;
  const runAs = runAccount ? ['--run-as', `${runAccount.uid}:${runAccount.gid}:${home}`] : [];
  const at = ['--gateway', installation.endpoints.http, '--invitation', file('host-invitation')];
  const enrolled = await countersign('runner', 'enroll', 'second', ...at, '--out', file('second'), ...runAs);
  expect(enrolled).toMatchObject({ code: 0 });
  const main = path.join(installationPath(), 'apps/sandbox-runner/src/main.ts');
  const isReady = async () => {
    const hosts = await installation.client('local-operator').hosts();
    return hosts.ok && hosts.value.some(({ host, ready }) => host === 'second' && ready === true);
  };
  const start = () => {
    const child = spawn(process.execPath, [main], {
      env: { ...process.env, COUNTERSIGN_CONFIG: file('second/runner.json') },
      stdio: 'ignore',
    });
    children.push(child);
    return child;
  };
  let child = start();
  const becomesReady = () =>
    expect
      .poll(
        async () => {
          if (child.exitCode !== null) child = start();
          return isReady();
        },
        { timeout: 30_000, interval: 200 },
      )
      .toBe(true);
  await becomesReady();
  const journal = async () => {
    const schema = z.object({ hosts: z.array(z.looseObject({ host: z.string(), journal: z.string().nullable() })) });
    const hosts = await installation.client('local-operator').request('GET', '/v1/hosts', schema);
    return hosts.ok ? hosts.value.hosts.find(({ host }) => host === 'second')?.journal : undefined;
  };
  await expect.poll(journal, { timeout: 30_000, interval: 200 }).toMatch(/^jrn_/);
  const early = await countersign('runner', 'confirm-journal', 'second');
  expect([early.code, early.stderr]).toEqual([1, expect.stringContaining('nothing is to be confirmed')]);
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
  rmSync(file('second/journal.jsonl'));
  child = start();
  const reason = async () => {
    const hosts = await installation.client('local-operator').hosts();
    return hosts.ok ? hosts.value.find(({ host }) => host === 'second')?.reason : '';
  };
  await expect
    .poll(reason, { timeout: 30_000, interval: 200 })
    .toMatch(/journal of this host is a new one.*confirm-journal second/);
  expect(await countersign('runner', 'confirm-journal', 'second')).toMatchObject({ code: 0 });
  await becomesReady();
}, 120_000);

/** Headers of somebody who signed in a moment ago. */
async function signedIn(subject: string, groups: readonly string[]): Promise<Record<string, string>> {
  const admin = installation.client('local-admin');
  const put = { roles: ['approver'], groups };
  accepted(await admin.request('PUT', `/v1/people/${subject}`, z.unknown(), put));
  const link = accepted(await admin.request('POST', '/v1/login-links', z.object({ path: z.string() }), { subject }));
  const { http } = installation.endpoints;
  const answer = await fetch(new URL(link.path, http), { redirect: 'manual' });
  const cookie = (answer.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
  const me = (await (await fetch(`${http}/v1/me`, { headers: { cookie } })).json()) as { csrf: string };
  return { cookie, 'x-csrf-token': me.csrf, 'content-type': 'application/json' };
}

const post = (route: string, headers: Record<string, string>, body: unknown) =>
  fetch(`${installation.endpoints.http}${route}`, { method: 'POST', headers, body: JSON.stringify(body) });

test('a delegation that a person gave is listed on the command line and ends when it is revoked there', async () => {
  const none = 'nobody decides for somebody else';
  expect((await countersign('delegations', 'list')).stdout).toBe(none);
  const given = await post('/v1/delegations', await signedIn('giver', ['sec']), {
    ...{ receiver: 'receiver', groups: ['sec'], days: 1 },
  });
  const { id } = (await given.json()) as { id: string };
  expect((await countersign('delegations', 'list')).stdout).toMatch(
    new RegExp(`^${id} {2}receiver for giver {2}sec {2}until \\d{4}-`),
  );
  expect(await countersign('delegations', 'revoke', id)).toMatchObject({ code: 0, stdout: `${id}: ended` });
  expect((await countersign('delegations', 'list')).stdout).toBe(none);
  const unknown = await countersign('delegations', 'revoke', `dlg_${'0'.repeat(32)}`);
  expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringContaining('no such delegation')]);
}, 120_000);

test('an emergency approval is listed as due on the command line and closed there once', async () => {
  expect((await countersign('reviews', 'list')).stdout).toBe('nobody broke glass');
  const queues = { default: { approvers: ['sec'], breakGlass: { groups: ['leads'], reviewHours: 24 } } };
  writePrivateFile(file('glass.json'), JSON.stringify({ mode: 'dev', ceilings: { mode: 'networked' }, queues }));
  const text = readFileSync(file('glass.json'), 'utf8');
  const admin = installation.client('local-admin');
  accepted(await admin.request('PUT', '/v1/policy', z.unknown(), { text, name: 'policy.json' }));
  const agent = await sampleAgent(installation);
  try {
    const opened = await agent.openSession({ project: installation.data.sampleProject, host: 'local' });
    const session = opened.ok ? opened.value.sessionId : '';
    const call = await agent.call({ tool: 'write', args: { path: 'glass.txt', content: 'x' }, session });
    const viewDigest = await waitingView(installation.client('local-operator'), call.callId);
    const reason = 'production is down, ticket 4711';
    const answer = { answer: 'approve', breakGlass: true, reason, viewDigest };
    const decided = await post(`/v1/calls/${call.callId}/decision`, await signedIn('lead', ['leads']), answer);
    expect([decided.status, (await endOf(call)).state]).toEqual([200, 'done']);
    expect((await countersign('reviews', 'list')).stdout).toMatch(
      new RegExp(`^${call.callId} {2}default {2}lead {2}due \\d{4}-.* {2}${reason}$`),
    );
    const close = (...more: string[]) => countersign('reviews', 'close', call.callId, '--note', 'it was down', ...more);
    expect((await close('--verdict', 'perhaps')).code).toBe(2);
    expect(await close('--verdict', 'justified')).toMatchObject({ code: 0, stdout: `${call.callId}: justified` });
    expect((await countersign('reviews', 'list')).stdout).toContain('justified (local-auditor)');
    expect(await close('--verdict', 'unjustified')).toMatchObject({ code: 1, stdout: '' });
  } finally {
    await agent.close();
  }
}, 120_000);

test("doctor says what each host's own pins demand", async () => {
  const line = async () =>
    (await countersign('doctor')).stdout.split('\n').find((text) => text.includes('host local')) ?? '';
  expect(await line()).toBe('ok   host local: ready, no pins: nothing there needs a passkey');
  const pins = [{ tools: ['write'], people: 1 }];
  writeFileSync(file('pins.json'), JSON.stringify({ version: 1, pins }), { mode: 0o644 });
  await expect.poll(line, { timeout: 30_000 }).toBe('ok   host local: ready, 1 pinned class of orders');
}, 120_000);

/** An order for the embedded host by whoever holds the gateway's and the audit service's keys. */
async function forgedOrder(
  callId: string,
  tool: string,
  args: object,
): Promise<{ orderId: string; bytes: Uint8Array }> {
  const { identities } = installation.keys;
  const [gateway, audit] = [await openIdentity(identities.gateway), await openIdentity(identities.audit)];
  const orderId = `ord_${randomUUID().replaceAll('-', '')}`;
  const facts = { agent: 'sample', callId, sessionId: 'ses_forged', tool, executor: 'runner', deadlineMs: 0 } as const;
  const envelope = canonicalEnvelope(facts);
  const payload = { salt: randomBytes(32), arguments: new TextEncoder().encode(JSON.stringify(args)) };
  const digest = callDigest(payload.salt, payload.arguments, envelope);
  const sealKey = identities['host-local'].sealPublicKey;
  const order = WorkOrder.fromPartial({
    ...{ orderId, callId, agent: 'sample', sessionId: 'ses_forged', host: 'local', tool, callDigest: digest },
    ...{ project: installation.data.sampleProject, profile: 'workspace-write', canonicalEnvelope: envelope },
    expiresAtMs: BigInt(Date.now() + 60_000),
    sealedPayload: await sealTo(sealKey, CallPayload.encode(payload).finish(), orderId),
  });
  const receipt = signReceipt(audit, {
    ...{ callId, orderId, host: 'local', callDigest: digest, entryId: 'ent_forged', logIndex: 1n },
    ...{ leafHash: randomBytes(32), decidedBy: 'human', termsDigest: termsDigest(order) },
    assertionsDigest: new Uint8Array(),
  });
  const body = WorkOrder.encode({ ...order, receipt }).finish();
  const subject = subjects.work('local');
  return { orderId, bytes: signEnvelope(gateway, { kind: EnvelopeKind.ORDER, subject, body, nowMs: Date.now() }) };
}

/** How the host's own journal says that an order ended. */
const endAtHost = async (orderId: string): Promise<string | undefined> =>
  readFileSync(path.join(installation.data.private, 'journal.jsonl'), 'utf8')
    .split('\n')
    .filter((text) => text.includes(orderId))
    .map((text) => JSON.parse(text) as { outcome?: string })
    .flatMap(({ outcome }) => (outcome === undefined ? [] : [Outcome.decode(Buffer.from(outcome, 'base64'))]))
    .map(({ reports, code }) => `${reports.at(-1)?.state} ${code}`.trim())[0];

test('rows forged in the database and orders forged with stolen keys run nothing that host pins protect, and the check finds the rows', async () => {
  const { data, endpoints } = installation;
  const pins = [{ tools: ['write'], people: 1 }];
  writeFileSync(file('pins.json'), JSON.stringify({ version: 1, pins }), { mode: 0o644 });
  expect((await countersign('audit', 'export', '--out', file('copy'))).code).toBe(0);
  expect(await countersign('audit', 'verify', file('copy'), '--online')).toMatchObject({ code: 0 });
  const agent = await sampleAgent(installation);
  const args = { path: path.join(data.sampleProject, 'stolen.txt'), content: 'x' };
  const opened = await agent.openSession({ project: data.sampleProject, host: 'local' });
  const { callId } = await agent.call({ tool: 'write', args, session: opened.ok ? opened.value.sessionId : '' });
  await waitingView(installation.client('local-operator'), callId);
  await agent.close();
  const { databaseUrl } = JSON.parse(readFileSync(path.join(data.config, 'audit.json'), 'utf8')) as {
    databaseUrl: string;
  };
  const database = new pg.Client({ connectionString: databaseUrl });
  await database.connect();
  for (const table of ['entry', 'entry_p0']) await database.query(`alter table audit.${table} disable trigger all`);
  const forgeries = [
    `update audit.call set state = 'approved', decision_entry = '{"entry_id":"ent_forged","effect":"allow"}' where call_id = $1`,
    `update audit.entry set type = 'decision' where call_id = $1 and type = 'approval.requested'`,
  ];
  for (const forgery of forgeries) expect((await database.query(forgery, [callId])).rowCount).toBe(1);
  await database.end();
  const { role, id, seed } = installation.keys.identities.gateway;
  const broker = await connectNats({ url: endpoints.natsUrl, seed, name: 'thief', inboxPrefix: inboxPrefix(role, id) });
  const pinned = await forgedOrder(callId, 'write', args);
  const free = await forgedOrder(callId, 'bash', { command: 'echo ran > free.txt' });
  for (const { bytes } of [pinned, free]) broker.publish(subjects.work('local'), bytes);
  const ends = () => Promise.all([endAtHost(pinned.orderId), endAtHost(free.orderId)]);
  await expect
    .poll(ends, { timeout: 30_000, interval: 200 })
    .toEqual([`refused ${ERROR_CODES.assertionsMissing}`, 'done']);
  await broker.close();
  const inProject = (name: string) => existsSync(path.join(data.sampleProject, name));
  expect([inProject('stolen.txt'), inProject('free.txt')]).toEqual([false, true]);
  const checked = await countersign('audit', 'verify', file('copy'), '--online');
  expect([checked.code, checked.stdout]).toEqual([1, expect.stringMatching(/database: [1-9]\d* problems$/)]);
}, 120_000);
