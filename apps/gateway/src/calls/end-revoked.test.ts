import { createIdentity } from '@countersign/protocol';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { callEntry, json } from '../record/entries.ts';
import { type Member, mayStart } from '../record/members.ts';
import { ControlPlane } from '../testing/control-plane.ts';

const plane = new ControlPlane();
let keys: string[] = [];
let member: Member;

beforeAll(() => plane.start([{ name: 'ann', role: 'operator' }]), 60_000);
beforeEach(async () => {
  const made = await Promise.all([1, 2, 3].map(() => createIdentity('agent', 'agt')));
  keys = made.map(({ publicKey }) => publicKey);
  const seal_key = made[0]?.sealPublicKey ?? '';
  const [sign_key = '', old = ''] = keys;
  member = {
    ...{ role: 'agent', id: 'agt', sign_key, seal_key, principal: 'somebody', task: '' },
    ...{ hosts: ['local'], roots: { local: ['/srv/project'] }, tools: ['write'], queues: [] },
    ...{ previous: [{ sign_key: old, until_ms: Date.now() + 3_600_000 }], revoked: [] },
  };
  await recordMember({});
});
afterAll(() => plane.stop());

/** Puts the member into the record, as a gateway that dies right after it would. */
async function recordMember(changes: Partial<Member>): Promise<void> {
  const [known] = await plane.audit.listDocuments('member', 'agent:agt');
  const version = known?.version ?? 0n;
  const value = json({ ...member, ...changes });
  const entry = { type: 'member.joined', stream: 'member.agent.agt', emittedMs: 1n, body: json({ detail: {} }) };
  const reply = await plane.audit.append({
    entries: [{ ...entry, id: `ent_agt_${version}` }],
    documents: [{ kind: 'member', key: 'agent:agt', value, expectedVersion: version }],
  });
  if (reply.refusal) throw new Error(reply.refusal.message);
}

const asked = async (method: string, route: string, body?: object) => {
  const answer = await plane.request(method, route, { as: 'ann', ...(body ? { body } : {}) });
  return (await answer.json()) as { state: string; viewDigest: string; code?: string };
};
const signedBy = (key: string, facts: object = {}) => plane.pendingCall({ view: { key }, ...facts });
const call = (id: string) => asked('GET', `/v1/calls/${id}`);
const stateOf = async (id: string) => (await call(id)).state;
const typesOf = async (id: string) => (await plane.entries()).filter((one) => one.call === id).map(({ type }) => type);
const approve = async (id: string) =>
  asked('POST', `/v1/calls/${id}/decision`, { answer: 'approve', viewDigest: (await call(id)).viewDigest });
const revoke = async (key: string) =>
  expect((await plane.request('DELETE', `/v1/members/agent/agt/keys/${key}`, { as: 'ann' })).status).toBe(200);
/** Waits until the gateway has read the member of this moment. */
const isKnown = (key: string) =>
  expect
    .poll(async () => (await plane.request('GET', '/v1/members', { as: 'ann' })).text(), { timeout: 30_000 })
    .toContain(key);

test('revoking the newest key cancels what waits, ends what was approved, and stops what runs', async () => {
  const [newest = ''] = keys;
  await isKnown(newest);
  const [waits, approved, runs, byPerson] = await Promise.all([
    signedBy(newest),
    signedBy(newest, { executor: 'agent' }),
    signedBy(newest),
    plane.pendingCall(),
  ]);
  expect(await approve(approved)).toEqual({ state: 'approved' });
  await approve(runs);
  await plane.audit.append({
    entries: [callEntry({ callId: runs, type: 'exec.started', toState: 'running', nowMs: plane.now() })],
  });
  await revoke(newest);
  expect([await stateOf(waits), await stateOf(approved)]).toEqual(['cancelled', 'cancelled']);
  expect(await typesOf(runs)).toContain('call.cancel_requested');
  expect(await stateOf(byPerson)).toBe('pending');
});

test('revoking a key that was replaced ends what it signed, and nothing of the new key', async () => {
  const [newest = '', old = ''] = keys;
  await isKnown(old);
  const [byOld, byNew] = await Promise.all([signedBy(old), signedBy(newest)]);
  await revoke(old);
  expect([await stateOf(byOld), await stateOf(byNew)]).toEqual(['cancelled', 'pending']);
  expect(await approve(byNew)).toMatchObject({ state: 'approved' });
});

test('what a gateway did not end because it died after the revocation, the sweep of the others ends', async () => {
  const [newest = '', , third = ''] = keys;
  const [byThird, byNew] = await Promise.all([signedBy(third), signedBy(newest)]);
  await recordMember({ previous: [{ sign_key: third, until_ms: 1 }], revoked: [third] });
  await expect.poll(() => stateOf(byThird), { timeout: 30_000 }).toBe('cancelled');
  expect(await stateOf(byNew)).toBe('pending');
});

test('an approval that meets a revocation which this gateway has not heard of starts nothing', async () => {
  const fresh = (await createIdentity('agent', 'agt')).publicKey;
  await recordMember({ sign_key: fresh });
  await isKnown(fresh);
  const id = await signedBy(fresh);
  await recordMember({ sign_key: fresh, revoked: [fresh] });
  // The sweep may have been quicker.
  expect(await approve(id)).toMatchObject({
    code: expect.stringMatching(/^countersign.gateway.(not_offered|already_decided)$/),
  });
  await expect.poll(() => stateOf(id), { timeout: 30_000 }).toBe('cancelled');
  expect(await typesOf(id)).not.toContain('dispatch.sent');
});

test("a retired key may start what it signed before until it is revoked; a stranger's may not", () => {
  const [newest = '', old = '', stranger = ''] = keys;
  const retired: Member = { ...member, previous: [{ sign_key: old, until_ms: 1 }] };
  expect([newest, old, stranger].map((key) => mayStart(retired, key))).toEqual([true, true, false]);
  expect(mayStart({ ...retired, revoked: [old] }, old)).toBe(false);
});
