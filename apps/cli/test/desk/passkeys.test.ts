import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import type { SubmittedCall } from '@countersign/agent';
import { freePort } from '@countersign/service-kit/embedded';
import { type IdentityProvider, startIdentityProvider } from '@countersign/testing';
import type { CDPSession, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { installationPath } from '../../src/embedded/data-folder.ts';
import { endOf } from '../../src/embedded/samples.ts';
import { accepted } from '../../src/local-installation.ts';
import { axeProblems } from './axe-problems.ts';
import { type DeskStage, startDeskStage } from './desk-stage.ts';

const LIMIT_MS = 15_000;
const POLICY = {
  ...{ mode: 'dev', ceilings: { mode: 'networked' } },
  queues: { default: { approvers: ['keepers'], passkey: true } },
};

/** One person at the desk with a virtual authenticator of his own. */
type Person = {
  readonly page: Page;
  readonly devtools: CDPSession;
  readonly problems: string[];
  authenticatorId: string;
  asserted: number;
};

let stage: DeskStage;
let provider: IdentityProvider;
let ann: Person;
let bob: Person;

async function addAuthenticator(devtools: CDPSession, transport: 'internal' | 'usb'): Promise<string> {
  const options = {
    ...{ protocol: 'ctap2' as const, transport, hasResidentKey: true },
    ...{ hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
  };
  return (await devtools.send('WebAuthn.addVirtualAuthenticator', { options })).authenticatorId;
}

/** Says whether the person touches an authenticator when it asks. */
const touches = ({ devtools }: Person, authenticatorId: string, enabled: boolean) =>
  devtools.send('WebAuthn.setAutomaticPresenceSimulation', { authenticatorId, enabled });

async function personAtDesk(subject: string): Promise<Person> {
  const admin = stage.installation.client('local-admin');
  const put = { roles: ['approver'], groups: ['keepers'] };
  accepted(await admin.request('PUT', `/v1/people/${subject}`, z.unknown(), put));
  const schema = z.object({ path: z.string() });
  const link = accepted(await admin.request('POST', '/v1/login-links', schema, { subject }));
  const context = await stage.browser.newContext({ locale: 'en', reducedMotion: 'reduce' });
  const page = await context.newPage();
  page.setDefaultTimeout(LIMIT_MS);
  const devtools = await context.newCDPSession(page);
  await devtools.send('WebAuthn.enable');
  const authenticatorId = await addAuthenticator(devtools, 'internal');
  const person: Person = { page, devtools, problems: [], authenticatorId, asserted: 0 };
  devtools.on('WebAuthn.credentialAsserted', () => {
    person.asserted += 1;
  });
  page.on('console', (message) => {
    if (/content security policy/i.test(message.text())) person.problems.push(message.text());
  });
  page.on('pageerror', (error) => person.problems.push(error.message));
  await page.goto(at(link.path));
  await page.locator('#content').waitFor();
  return person;
}

/** Passkeys belong to `localhost`, so that the desk is opened under that name. */
const at = (address: string) =>
  new URL(address, stage.installation.endpoints.http.replace('127.0.0.1', 'localhost')).href;

async function countersign(...args: string[]): Promise<string> {
  const entry = path.join(installationPath(), 'apps/cli/src/main.ts');
  const { data } = stage.installation;
  return (await promisify(execFile)(process.execPath, [entry, '--data', data.root, ...args])).stdout;
}

/** Signs the next list with the root key and publishes it. */
async function publishList(): Promise<void> {
  const { data } = stage.installation;
  const file = (name: string) => path.join(data.private, name);
  await countersign('approvers', 'draft', '--out', file('draft.json'));
  const root = path.join(data.keys, 'root.json');
  await countersign('approvers', 'sign', file('draft.json'), '--root', root, '--out', file('list'));
  await countersign('approvers', 'publish', file('list'));
}

async function enrol({ page }: Person, label: string): Promise<void> {
  await page.goto(at('/you'));
  await page.getByLabel('Name of the new passkey').fill(label);
  await page.getByRole('button', { name: 'Add a passkey' }).click();
  await page.locator('li[data-passkey]').getByText(label, { exact: true }).waitFor();
}

const write = (name: string): Promise<SubmittedCall> =>
  stage.agent.call({ tool: 'write', args: { path: name, content: `content of ${name}\n` }, session: stage.session });
const stateOf = async ({ callId }: SubmittedCall) =>
  accepted(await stage.installation.client('local-operator').callById(callId)).state;
const inProject = (name: string) => path.join(stage.installation.data.sampleProject, name);

async function openCall({ page }: Person, { callId }: SubmittedCall): Promise<void> {
  await page.goto(at(`/calls/${callId}`));
  await page.locator('.decision[data-settled="true"]').waitFor();
}

const approve = ({ page }: Person) => page.getByRole('button', { name: 'Approve once' }).click();

beforeAll(async () => {
  const port = await freePort();
  const claims = { roles: { approver: ['deciders'] } };
  stage = await startDeskStage(
    JSON.stringify({ oidc: { issuer: `http://localhost:${port}`, clientId: 'countersign', ...claims } }),
  );
  const redirectUris = [at('/v1/oidc/callback')];
  provider = await startIdentityProvider({ port, redirectUris, groups: { kim: ['deciders', 'keepers'] } });
  const { data, client } = stage.installation;
  // The host itself says that writes need a passkey; nothing that the control plane says changes it.
  writeFileSync(
    path.join(data.root, 'pins.json'),
    JSON.stringify({ version: 1, pins: [{ tools: ['write'], people: 1 }] }),
    {
      mode: 0o644,
    },
  );
  const body = { text: JSON.stringify(POLICY), name: 'policy.json' };
  accepted(await client('local-admin').request('PUT', '/v1/policy', z.unknown(), body));
  [ann, bob] = [await personAtDesk('ann'), await personAtDesk('bob')];
}, 180_000);
afterAll(async () => {
  await provider?.stop();
  await stage?.stop();
  expect([ann?.problems, bob?.problems]).toEqual([[], []]);
}, 60_000);

test('a person enrols a passkey at the desk, sees it there, and it decides once the root has signed a list with it', async () => {
  await enrol(ann, 'laptop');
  await ann.page.getByText('waits for the signed list').waitFor();
  await publishList();
  await ann.page.reload();
  await ann.page.getByText('decides', { exact: true }).waitFor();
  expect(await axeProblems(ann.page)).toEqual([]);
}, 60_000);

test('a pinned call is approved with a passkey at the desk; the host computes it again and runs it', async () => {
  const call = await write('signed.txt');
  await openCall(ann, call);
  await ann.page.getByText('with your passkey only').waitFor();
  await approve(ann);
  expect(await endOf(call)).toMatchObject({ state: 'done', decidedBy: 'human' });
  expect([readFileSync(inProject('signed.txt'), 'utf8'), ann.asserted]).toEqual(['content of signed.txt\n', 1]);
}, 60_000);

test('several marked calls are approved with one signature, each a decision of its own that the host verifies', async () => {
  const before = ann.asserted;
  const names = ['b1.txt', 'b2.txt', 'b3.txt'];
  const calls = await Promise.all(names.map(write));
  await ann.page.goto(at('/?group=alike'));
  for (const { callId } of calls) await ann.page.locator(`a[data-call="${callId}"]`).waitFor();
  await ann.page.getByLabel('Mark all of write').check();
  await ann.page.getByRole('button', { name: 'Review marked' }).click();
  const dialog = ann.page.getByRole('dialog');
  for (const { callId } of calls) await dialog.locator(`[data-bulk="${callId}"] .diff`).waitFor();
  await dialog.getByRole('button', { name: 'Approve 3 calls once' }).click();
  expect((await Promise.all(calls.map(endOf))).map(({ state }) => state)).toEqual(['done', 'done', 'done']);
  expect(ann.asserted).toBe(before + 1);
}, 60_000);

test('a passkey that the root has not listed approves nothing, and its owner is told why', async () => {
  await enrol(bob, 'key');
  const call = await write('unlisted.txt');
  await openCall(bob, call);
  await approve(bob);
  await bob.page.getByText('not on the signed approver list').waitFor();
  expect(await stateOf(call)).toBe('pending');
  await stage.installation.client('local-operator').cancel(call.callId, 'the test is over');
}, 60_000);

test('the desk signs nothing when the gateway asks for something else than it shows', async () => {
  const call = await write('other.txt');
  const other = await write('hidden.txt');
  const before = ann.asserted;
  await openCall(ann, call);
  await ann.page.route('**/challenge', async (route) => {
    const answer = await route.fetch({ url: route.request().url().replace(call.callId, other.callId) });
    await route.fulfill({ response: answer });
  });
  await approve(ann);
  await ann.page.getByText('asked your passkey to sign something else').waitFor();
  await ann.page.unroute('**/challenge');
  expect([ann.asserted, await stateOf(call), await stateOf(other)]).toEqual([before, 'pending', 'pending']);
  const operator = stage.installation.client('local-operator');
  for (const { callId } of [call, other]) await operator.cancel(callId, 'the test is over');
}, 60_000);

test('an answer whose view or obligations are not the ones that were signed approves nothing', async () => {
  const call = await write('altered.txt');
  await openCall(ann, call);
  const alter = (change: (body: { viewDigest: string; narrow?: object }) => object) =>
    ann.page.route('**/decision', (route) =>
      route.continue({ postData: JSON.stringify(change(route.request().postDataJSON())) }),
    );
  await alter((body) => ({ ...body, viewDigest: '0'.repeat(64) }));
  await approve(ann);
  await ann.page.getByText('changed since you read it').waitFor();
  await ann.page.unroute('**/decision');
  await alter((body) => ({ ...body, narrow: { timeoutMs: 1_000 } }));
  await openCall(ann, call);
  await approve(ann);
  await ann.page.getByText('each of them approves exactly what is shown').waitFor();
  await ann.page.unroute('**/decision');
  expect(await stateOf(call)).toBe('pending');
  await openCall(ann, call);
  await approve(ann);
  expect(await endOf(call)).toMatchObject({ state: 'done' });
}, 90_000);

const keysSchema = z.object({
  keys: z.array(z.object({ role: z.string(), id: z.string(), key: z.string(), state: z.string() })),
});
const listedKeys = async () =>
  keysSchema
    .parse(JSON.parse(await countersign('--json', 'keys', 'list')))
    .keys.filter(({ role }) => role === 'approver');

test('one command lets a newly added passkey take over: it decides at once, the one before until the end of the overlap, and nobody else is listed', async () => {
  await expect(countersign('keys', 'rotate', 'approver', 'ann')).rejects.toThrow(/has added no passkey/);
  const rotating = countersign('--json', 'keys', 'rotate', 'approver', 'ann', '--overlap', '30', '--wait', '2');
  const first = ann.authenticatorId;
  const second = await addAuthenticator(ann.devtools, 'usb');
  await touches(ann, first, false);
  await enrol(ann, 'phone');
  expect(JSON.parse(await rotating)).toMatchObject({ id: 'ann', adopted: true, version: 2 });
  const listed = await listedKeys();
  expect(listed.map(({ id }) => id)).toEqual(['ann', 'ann']);
  expect(listed.map(({ state }) => state)).toEqual([expect.stringMatching(/^until /), 'active']);
  await ann.page.reload();
  await ann.page.getByText('decides until').waitFor();
  for (const [touched, other] of [
    [second, first],
    [first, second],
  ] as const) {
    await touches(ann, other, false);
    await touches(ann, touched, true);
    const call = await write(`by-${touched}.txt`);
    await openCall(ann, call);
    await approve(ann);
    expect(await endOf(call)).toMatchObject({ state: 'done', decidedBy: 'human' });
  }
}, 120_000);

test("a passkey that an admin revokes on the command line leaves its person's page and the next list", async () => {
  const schema = z.object({
    draft: z.object({ approvers: z.array(z.object({ person: z.string(), credentialId: z.string() })) }),
  });
  const ofBob = async () => {
    const admin = stage.installation.client('local-admin');
    const { draft } = accepted(await admin.request('GET', '/v1/approver-list', schema));
    return draft.approvers.filter(({ person }) => person === 'bob').map(({ credentialId }) => credentialId);
  };
  const [credential, ...others] = await ofBob();
  expect([credential === undefined, others]).toEqual([false, []]);
  expect(await countersign('keys', 'revoke', 'approver', '--', credential ?? '')).toContain(
    'no list in force names it',
  );
  expect(await ofBob()).toEqual([]);
  await bob.page.goto(at('/you'));
  await bob.page.getByText('No passkey yet').waitFor();
}, 60_000);

test('a removed passkey approves nothing at once, and the host follows the next signed list', async () => {
  await ann.page.goto(at('/you'));
  await ann.page.getByRole('button', { name: 'Remove laptop' }).click();
  await ann.page.getByRole('button', { name: 'Remove laptop' }).waitFor({ state: 'detached' });
  const phone = (await listedKeys()).find(({ state }) => state === 'active')?.key ?? '';
  expect(await countersign('keys', 'revoke', 'approver', '--', phone)).toContain('list version 3');
  expect(await listedKeys()).toEqual([]);
  await ann.page.reload();
  await ann.page.getByText('No passkey yet').waitFor();
  const call = await write('removed.txt');
  await openCall(ann, call);
  await approve(ann);
  await ann.page.getByText('You have no passkey here').waitFor();
  expect(await stateOf(call)).toBe('pending');
}, 60_000);

/** Fills in the provider's forms, as whoever sits there, until it leads back to the desk. */
async function signInAtProvider(page: Page, name: string): Promise<void> {
  await page.waitForURL(`${provider.issuer}/interaction/**`);
  await page.locator('input[name=login]').fill(name);
  await page.locator('input[name=password]').fill('any');
  await page.locator('button[type=submit]').click();
  // The consent is asked for at the first sign-in only.
  const consent = page.locator('input[name=prompt][value=consent]');
  const desk = page.locator('#content');
  await consent.or(desk).first().waitFor({ state: 'attached' });
  if ((await consent.count()) > 0) await page.locator('button[type=submit]').click();
  await desk.waitFor();
}

test("a person signs in at the desk with the organisation's provider, is told when that is too long ago for a sensitive act, and repeats it after a fresh sign-in", async () => {
  const context = await stage.browser.newContext({ locale: 'en', reducedMotion: 'reduce' });
  const page = await context.newPage();
  page.setDefaultTimeout(LIMIT_MS);
  const devtools = await context.newCDPSession(page);
  await devtools.send('WebAuthn.enable');
  await addAuthenticator(devtools, 'internal');
  provider.signedInAgo = 600;
  await page.goto(at('/you'));
  await page.getByRole('link', { name: 'Sign in with your organisation' }).click();
  await signInAtProvider(page, 'kim');
  expect(new URL(page.url()).pathname).toBe('/you');
  await page.getByText('kim', { exact: true }).waitFor();
  await page.getByLabel('Name of the new passkey').fill('laptop');
  await page.getByRole('button', { name: 'Add a passkey' }).click();
  provider.signedInAgo = 0;
  await page.getByRole('link', { name: 'Sign in again, then repeat this' }).click();
  await signInAtProvider(page, 'kim');
  expect(new URL(page.url()).pathname).toBe('/you');
  await page.getByText('No passkey yet').waitFor();
  const kim: Person = { page, devtools, problems: [], authenticatorId: '', asserted: 0 };
  await enrol(kim, 'laptop');
  await context.close();
}, 90_000);

test('the export holds every signature, and an auditor verifies them without any service', async () => {
  const out = path.join(stage.installation.data.root, 'passkey-export');
  await countersign('audit', 'export', '--out', out);
  const { problems, signedApprovals } = JSON.parse(await countersign('--json', 'audit', 'verify', out));
  // One alone, three with one signature, one after it was altered, two during the overlap.
  expect([problems, signedApprovals]).toEqual([[], 7]);
}, 60_000);
