import { signApproverList } from '@countersign/protocol';
import { freePort } from '@countersign/service-kit/embedded';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ControlPlane, type TestToken } from '../testing/control-plane.ts';

const TOKENS: readonly TestToken[] = [
  { name: 'boss', role: 'admin' },
  { name: 'ann', role: 'approver', groups: ['keepers'] },
];
const queues = { vault: { approvers: ['keepers'], passkey: true } };

const plane = new ControlPlane();
let browser: Browser;
let page: Page;

beforeAll(async () => {
  const port = await freePort();
  const passkeys = { rpId: 'localhost', origins: [`http://localhost:${port}`] };
  const policy = { permissions: { queues }, ceilings: {}, security: {} };
  await plane.start(TOKENS, { http: { host: '127.0.0.1', port }, passkeys, policy });
  browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
  page = await browser.newPage();
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('WebAuthn.enable');
  const options = { protocol: 'ctap2', transport: 'internal', hasResidentKey: true } as const;
  const user = { hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true };
  await devtools.send('WebAuthn.addVirtualAuthenticator', { options: { ...options, ...user } });
  const link = await plane.request('POST', '/v1/login-links', { as: 'boss', body: { subject: 'ann' } });
  const { path } = (await link.json()) as { path: string };
  await page.goto(`http://localhost:${port}${path}`);
  await page.goto(`http://localhost:${port}/healthz`);
}, 90_000);
afterAll(async () => {
  await browser?.close();
  await plane.stop();
});

/** Runs in the page: one request as the signed-in person. */
const IN_PAGE = `
  window.ask = async (method, route, body) => {
    const me = await (await fetch('/v1/me')).json();
    const headers = { 'x-csrf-token': me.csrf, ...(body ? { 'content-type': 'application/json' } : {}) };
    const answer = await fetch(route, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
    return { status: answer.status, ...(await answer.json()) };
  };
  window.bytes = (text) => Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
  window.text = (data) => btoa(String.fromCharCode(...new Uint8Array(data))).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
`;

const REGISTER = `(async () => {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(await ask('POST', '/v1/passkeys/options'));
  const made = await navigator.credentials.create({ publicKey });
  return ask('POST', '/v1/passkeys', { label: 'laptop', response: made.toJSON() });
})()`;

const approve = (callId: string) => `(async () => {
  const { viewDigest } = await ask('GET', '/v1/calls/${callId}');
  const asked = await ask('POST', '/v1/calls/${callId}/challenge');
  const { response, rawId } = await navigator.credentials.get({ publicKey: {
    challenge: bytes(asked.challenge), rpId: asked.rpId, userVerification: 'required',
    allowCredentials: asked.credentialIds.map((id) => ({ type: 'public-key', id: bytes(id) })),
  } });
  const assertion = { nonce: asked.nonce, statement: asked.statement, credentialId: text(rawId),
    clientDataJSON: text(response.clientDataJSON), authenticatorData: text(response.authenticatorData),
    signature: text(response.signature) };
  return ask('POST', '/v1/calls/${callId}/decision', { answer: 'approve', viewDigest, assertion });
})()`;

test('in a real browser a person enrols a passkey, the root lists it, and an approval is signed with it', async () => {
  await page.evaluate(IN_PAGE);
  expect(await page.evaluate(REGISTER)).toMatchObject({ status: 201, person: 'ann', label: 'laptop' });
  const callId = await plane.pendingCall({ queue: 'vault', principal: 'rita' });
  expect(await page.evaluate(approve(callId))).toMatchObject({ status: 422 });
  const answer = await plane.request('GET', '/v1/approver-list', { as: 'boss' });
  const { draft } = (await answer.json()) as { draft: Parameters<typeof signApproverList>[1] };
  expect(draft).toMatchObject({ version: 1, approvers: [{ person: 'ann' }] });
  const signed = Buffer.from(signApproverList(plane.root, draft)).toString('base64');
  await plane.request('PUT', '/v1/approver-list', { as: 'boss', body: { signed } });
  expect(await page.evaluate(approve(callId))).toMatchObject({ status: 200, state: 'approved' });
  const log = await plane.entries();
  expect(log.some(({ detail }) => (detail as { what?: string } | undefined)?.what === 'passkey.added')).toBe(true);
  expect((await plane.audit.getReceipt(callId))?.assertionsDigest.length).toBe(32);
}, 60_000);
