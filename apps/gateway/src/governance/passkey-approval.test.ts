import { randomBytes } from 'node:crypto';
import {
  assertionsDigest,
  createIdentity,
  openIdentity,
  type PasskeyAssertion,
  Receipt,
  signApproverList,
} from '@countersign/protocol';
import { type PasskeyChange, SoftwarePasskey } from '@countersign/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ControlPlane, type TestToken } from '../testing/control-plane.ts';

const ORIGIN = 'https://desk.example';
const RP = 'desk.example';
const TOKENS: readonly TestToken[] = [
  { name: 'boss', role: 'admin' },
  ...(['ann', 'bob'] as const).map((name) => ({ name, role: 'approver' as const, groups: ['keepers'] })),
  { name: 'eve', role: 'approver', groups: ['keepers'] },
];
const queues = {
  vault: { approvers: ['keepers'], passkey: true },
  closed: { approvers: ['others'], passkey: true },
  both: { approvers: ['keepers'], approvals: 2, passkey: true },
};
const keys = {
  ann: new SoftwarePasskey(RP, ORIGIN),
  bob: new SoftwarePasskey(RP, ORIGIN),
  eve: new SoftwarePasskey(RP, ORIGIN),
};

const plane = new ControlPlane();
beforeAll(async () => {
  const passkeys = { rpId: RP, origins: [ORIGIN] };
  await plane.start(TOKENS, { passkeys, policy: { permissions: { queues }, ceilings: {}, security: {} } });
  expect((await publish(1)).status).toBe(200);
}, 60_000);
afterAll(() => plane.stop());

const listOf = (version: number) => ({
  ...{ version, rpId: RP, origins: [ORIGIN] },
  approvers: [keys.ann.approver('ann'), keys.bob.approver('bob')],
});
function publish(version: number, signer = plane.root) {
  const signed = Buffer.from(signApproverList(signer, listOf(version))).toString('base64');
  return plane.request('PUT', '/v1/approver-list', { as: 'boss', body: { signed } });
}

const bytes = (text: string) => new Uint8Array(Buffer.from(text, 'base64url'));
const text = (value: Uint8Array) => Buffer.from(value).toString('base64url');

async function sign(callId: string, as: 'ann' | 'bob' | 'eve', change: PasskeyChange = {}, by = keys[as]) {
  const answer = await plane.request('POST', `/v1/calls/${callId}/challenge`, { as });
  const { nonce, statement } = (await answer.json()) as { nonce: string; statement: string };
  return by.assert(bytes(nonce), bytes(statement), change);
}

type Body = { answer?: string; remember?: string };
async function decide(callId: string, as: string, assertion?: PasskeyAssertion, change: Body = {}) {
  const read = await plane.request('GET', `/v1/calls/${callId}`, { as: 'boss' });
  const { viewDigest } = (await read.json()) as { viewDigest: string };
  const body = {
    ...{ answer: 'approve', viewDigest },
    ...(assertion
      ? {
          assertion: {
            nonce: text(assertion.nonce),
            statement: text(assertion.statement),
            credentialId: text(assertion.credentialId),
            clientDataJSON: text(assertion.clientDataJson),
            authenticatorData: text(assertion.authenticatorData),
            signature: text(assertion.signature),
            ...(assertion.tree
              ? { tree: { ...assertion.tree, path: assertion.tree.path.map(text), root: text(assertion.tree.root) } }
              : {}),
          },
        }
      : {}),
    ...change,
  };
  const answer = await plane.request('POST', `/v1/calls/${callId}/decision`, { as, body });
  return { status: answer.status, ...((await answer.json()) as { state?: string; code?: string; detail?: string }) };
}

const newCall = (queue = 'vault') => plane.pendingCall({ queue, principal: 'rita' });

test('a listed passkey approves; the receipt binds its assertion; a denial needs none', async () => {
  const callId = await newCall();
  const assertion = await sign(callId, 'ann');
  expect(await decide(callId, 'ann', assertion)).toMatchObject({ status: 200, state: 'approved' });
  const receipt = await plane.audit.getReceipt(callId);
  expect(Receipt.fromPartial(receipt ?? {}).assertionsDigest).toEqual(Buffer.from(assertionsDigest([assertion])));
  expect((await decide(await newCall(), 'ann', undefined, { answer: 'deny' })).state).toBe('denied');
});

test('a quorum keeps every assertion, and the receipt binds them all', async () => {
  const callId = await newCall('both');
  const [first, second] = [await sign(callId, 'ann'), await sign(callId, 'bob')];
  expect((await decide(callId, 'ann', first)).state).toBe('pending');
  expect((await decide(callId, 'bob', second)).state).toBe('approved');
  const receipt = await plane.audit.getReceipt(callId);
  expect(Receipt.fromPartial(receipt ?? {}).assertionsDigest).toEqual(Buffer.from(assertionsDigest([first, second])));
});

test.each<[string, RegExp, (callId: string) => Promise<{ detail?: string }>]>([
  ['no passkey', /passkey only/, (id) => decide(id, 'ann')],
  ["another person's passkey", /another person/, async (id) => decide(id, 'ann', await sign(id, 'ann', {}, keys.bob))],
  ["another person's assertion", /something else/, async (id) => decide(id, 'ann', await sign(id, 'bob'))],
  ['a passkey that is not listed', /not on the signed/, async (id) => decide(id, 'eve', await sign(id, 'eve'))],
  [
    'another page',
    /another page/,
    async (id) => decide(id, 'ann', await sign(id, 'ann', { origin: 'https://evil.example' })),
  ],
  [
    'a user who was not verified',
    /verify its user/,
    async (id) => decide(id, 'ann', await sign(id, 'ann', { flags: 1 })),
  ],
  [
    'an assertion of another call',
    /something else/,
    async (id) => decide(id, 'ann', await sign(await newCall(), 'ann')),
  ],
  [
    'a nonce that is not ours',
    /something else/,
    async (id) => {
      const { statement } = await sign(id, 'ann');
      return decide(id, 'ann', keys.ann.assert(randomBytes(32), statement));
    },
  ],
  [
    'a grant for the session',
    /passkeys decide/,
    async (id) => decide(id, 'ann', await sign(id, 'ann'), { remember: 'session' }),
  ],
])('%s approves nothing in a queue that asks for passkeys', async (_title, message, attempt) => {
  const callId = await newCall();
  const { detail } = await attempt(callId);
  expect(detail).toMatch(message);
  const read = await plane.request('GET', `/v1/calls/${callId}`, { as: 'boss' });
  expect(((await read.json()) as { state: string }).state).toBe('pending');
});

type Part = { callId: string; nonce: string; statement: string; tree: { path: string[]; root: string } & Tree };
type Tree = { index: number; size: number };

/** One signature of ann over several calls: her assertion for each of them. */
async function signTogether(calls: readonly string[]): Promise<Map<string, PasskeyAssertion>> {
  const answer = await plane.request('POST', '/v1/challenges', { as: 'ann', body: { calls } });
  const made = (await answer.json()) as { challenge: string; calls: Part[] };
  return new Map(
    made.calls.map(({ callId, nonce, statement, tree }) => {
      const place = { ...tree, path: tree.path.map(bytes), root: bytes(tree.root) };
      return [
        callId,
        keys.ann.assert(bytes(nonce), bytes(statement), { challenge: bytes(made.challenge), tree: place }),
      ];
    }),
  );
}

test('one signature approves several calls, each decided on its own; it says nothing of a call that was not among them', async () => {
  const calls = [await newCall(), await newCall(), await newCall()];
  const signed = await signTogether(calls);
  const [first = '', second = '', third = ''] = calls;
  expect((await decide(first, 'ann', signed.get(first))).state).toBe('approved');
  const receipt = await plane.audit.getReceipt(first);
  const own = signed.get(first);
  expect(Receipt.fromPartial(receipt ?? {}).assertionsDigest).toEqual(Buffer.from(assertionsDigest(own ? [own] : [])));
  expect((await decide(second, 'ann', signed.get(third))).detail).toMatch(/something else/);
  const other = await newCall();
  const alone = await sign(other, 'ann');
  const grafted = { ...alone, tree: signed.get(second)?.tree, clientDataJson: signed.get(second)?.clientDataJson };
  expect((await decide(other, 'ann', { ...alone, ...grafted } as PasskeyAssertion)).detail).toMatch(/not among those/);
  const untied = { ...(signed.get(second) as PasskeyAssertion), tree: undefined };
  expect((await decide(second, 'ann', untied)).detail).toMatch(/signed something else/);
  expect((await decide(second, 'ann', signed.get(second))).state).toBe('approved');
  expect((await decide(third, 'bob', signed.get(third))).detail).toMatch(/something else/);
});

test('a challenge over several calls names each of them once, and none that its caller may not see', async () => {
  const callId = await newCall();
  const ask = async (calls: string[]) =>
    (await plane.request('POST', '/v1/challenges', { as: 'ann', body: { calls } })).status;
  const hidden = await plane.pendingCall({ queue: 'closed', principal: 'rita' });
  expect([await ask([callId, callId]), await ask([callId, 'call_unknown']), await ask([callId, hidden])]).toEqual([
    400, 404, 404,
  ]);
});

test('a challenge lives for five minutes', async () => {
  const callId = await newCall();
  const assertion = await sign(callId, 'ann');
  plane.aheadMs = 5 * 60_000 + 1_000;
  expect((await decide(callId, 'ann', assertion)).detail).toMatch(/too old/);
  plane.aheadMs = 0;
  expect((await decide(callId, 'ann', assertion)).state).toBe('approved');
});

test('a list that the root did not sign, or that goes back, is not published', async () => {
  const stranger = await openIdentity(await createIdentity('root', 'root'));
  expect([(await publish(9, stranger)).status, (await publish(1)).status, (await publish(2)).status]).toEqual([
    422, 422, 200,
  ]);
  const acts = (await plane.entries()).map(({ detail }) => detail as { what?: string; version?: number } | undefined);
  expect(acts.filter((act) => act?.what === 'approver_list.published').map((act) => act?.version)).toEqual([1, 2]);
});

test('a replaced passkey approves until the end of its overlap; a list whose overlap has ended already is not published', async () => {
  const next = new SoftwarePasskey(RP, ORIGIN);
  const replaced = (version: number, signedMs: number) => {
    const line = { ...keys.ann.approver('ann'), overlapMinutes: 10 };
    const draft = { ...listOf(version), approvers: [next.approver('ann'), line, keys.bob.approver('bob')] };
    const signed = Buffer.from(signApproverList(plane.root, draft, signedMs)).toString('base64');
    return plane.request('PUT', '/v1/approver-list', { as: 'boss', body: { signed } });
  };
  const stale = await replaced(3, Date.now() - 3_600_000);
  expect([stale.status, await stale.text()]).toEqual([422, expect.stringMatching(/ended before this was published/)]);
  expect((await replaced(3, Date.now())).status).toBe(200);
  for (const key of [keys.ann, next]) {
    const callId = await newCall();
    expect((await decide(callId, 'ann', await sign(callId, 'ann', {}, key))).state).toBe('approved');
  }
  plane.aheadMs = 11 * 60_000;
  const callId = await newCall();
  expect((await decide(callId, 'ann', await sign(callId, 'ann'))).detail).toMatch(/was replaced by another one/);
  expect((await decide(callId, 'ann', await sign(callId, 'ann', {}, next))).state).toBe('approved');
  plane.aheadMs = 0;
});
