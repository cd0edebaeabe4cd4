import { Control, EnvelopeKind, openEnvelope, subjects } from '@countersign/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { callEntry, json } from '../record/entries.ts';
import { ControlPlane } from '../testing/control-plane.ts';

const plane = new ControlPlane();
beforeAll(
  () =>
    plane.start([
      { name: 'ann', role: 'operator' },
      { name: 'bob', role: 'approver' },
    ]),
  60_000,
);
afterAll(() => plane.stop());

async function move(callId: string, steps: readonly (readonly [string, string])[]): Promise<void> {
  const entries = steps.map(([type, toState]) => callEntry({ callId, type, toState, nowMs: plane.now() }));
  const reply = await plane.audit.append({ entries });
  if (reply.refusal) throw new Error(reply.refusal.message);
}

type Heard = { readonly action: string; readonly reason: string; readonly sequence: bigint };

/** What gateways ask the host for about a call, from now on. */
async function hear(callId: string): Promise<{ heard: Heard[]; close: () => Promise<void> }> {
  const line = await plane.connect();
  const heard: Heard[] = [];
  const subject = subjects.control('local');
  line.subscribe(subject, {
    callback: (_, { data }) => {
      const opened = openEnvelope(data, {
        kind: EnvelopeKind.CONTROL,
        subject,
        issuer: () => true,
        nowMs: plane.now(),
      });
      if (!opened.ok) return;
      const { action, callId: about, reason } = Control.decode(opened.value.body);
      if (about === callId) heard.push({ action, reason, sequence: opened.value.sequence });
    },
  });
  await line.flush();
  return { heard, close: () => line.close() };
}

async function approvedCall(facts: Parameters<ControlPlane['pendingCall']>[0] = {}): Promise<string> {
  const id = await plane.pendingCall(facts);
  const seen = (await (await plane.request('GET', `/v1/calls/${id}`, { as: 'ann' })).json()) as { viewDigest: string };
  const answer = { answer: 'approve', viewDigest: seen.viewDigest };
  await plane.request('POST', `/v1/calls/${id}/decision`, { as: 'ann', body: answer });
  return id;
}

const ended = (id: string) =>
  move(id, [
    ['exec.interrupted', 'interrupted'],
    ['call.closed', ''],
  ]);

/** Records that a call is to be stopped, as a gateway does that dies before it tells the host. */
async function recordStop(callId: string, attempt: string, detail: object): Promise<void> {
  const entry = callEntry({ callId, type: 'call.cancel_requested', attempt, nowMs: plane.now(), body: { detail } });
  expect((await plane.audit.append({ entries: [entry] })).refusal).toBeUndefined();
}

test('a stop is sent again, signed anew, until the host reported the end', async () => {
  const id = await approvedCall();
  const { heard, close } = await hear(id);
  await move(id, [['exec.started', 'running']]);
  await plane.request('POST', `/v1/calls/${id}/cancel`, { as: 'ann', body: { reason: 'enough' } });
  await expect.poll(() => heard.length, { timeout: 30_000 }).toBeGreaterThanOrEqual(3);
  expect(new Set(heard.map(({ action, reason }) => `${action} ${reason}`))).toEqual(new Set(['stop enough']));
  const sequences = heard.map(({ sequence }) => sequence);
  expect(sequences).toEqual([...new Set(sequences)].toSorted((a, b) => (a < b ? -1 : 1)));
  await ended(id);
  const other = await approvedCall();
  await recordStop(other, '1', { by: 'ann', reason: 'another' });
  const next = await hear(other);
  await expect.poll(() => next.heard.length, { timeout: 30_000 }).toBeGreaterThan(1);
  const after = heard.length;
  await expect.poll(() => next.heard.length, { timeout: 30_000 }).toBeGreaterThan(3);
  expect(heard.length).toBe(after);
  await Promise.all([close(), next.close()]);
}, 120_000);

test.each([
  ['a stop', [['1', { by: 'ann', reason: 'enough' }]], 'stop enough'],
  ['a stop by a person who is called policy', [['1', { by: 'policy', reason: 'enough' }]], 'stop enough'],
  ['a withdrawal for a newer policy', [['policy', { reason: 'policy', policy_digest: 'd' }]], 'revoke policy'],
  [
    'a stop after a withdrawal',
    [
      ['policy', { reason: 'policy', policy_digest: 'd' }],
      ['1', { by: 'ann', reason: 'enough' }],
    ],
    'stop enough',
  ],
] as const)(
  '%s that a gateway recorded before it died is sent by every other',
  async (_title, stops, expected) => {
    const id = await approvedCall();
    const { heard, close } = await hear(id);
    for (const [attempt, detail] of stops) await recordStop(id, attempt, detail);
    await expect.poll(() => heard.length, { timeout: 30_000 }).toBeGreaterThanOrEqual(2);
    expect(new Set(heard.map(({ action, reason }) => `${action} ${reason}`))).toEqual(new Set([expected]));
    await ended(id).catch(() => undefined);
    await close();
  },
  60_000,
);

test('a session whose gateway died while it deleted it is finished: waiting calls cancelled, running ones stopped', async () => {
  const [parent, child] = ['ses_deleted', 'ses_child'];
  const state = { [parent]: 'closed', [child]: 'open' };
  for (const id of [parent, child]) {
    const value = {
      ...{ id, agent: 'agt', principal: 'somebody', host: 'local', project: '/srv/project', labels: {} },
      ...{ permission_mode: 'strict', approval_mode: 'manual', eternal: false, model: { provider: '', name: '' } },
      ...{ request_text: '', state: state[id], ...(id === child ? { parent } : {}) },
    };
    const opened = { id: `ent_${id}`, type: 'session.opened', stream: id, emittedMs: 1n, body: json({ session: id }) };
    const document = { kind: 'session', key: id, value: json(value), expectedVersion: 0n };
    expect((await plane.audit.append({ entries: [opened], documents: [document] })).refusal).toBeUndefined();
  }
  const waits = await plane.pendingCall({ session: child });
  const runs = await approvedCall({ session: child });
  const { heard, close } = await hear(runs);
  plane.aheadMs += 61_000;
  const stateOf = async (id: string) => (await plane.audit.getCall('', id))?.state;
  await expect.poll(() => stateOf(waits), { timeout: 30_000 }).toBe('cancelled');
  await expect.poll(() => heard.map(({ action }) => action), { timeout: 30_000 }).toContain('stop');
  const [document] = await plane.audit.listDocuments('session', child);
  expect(JSON.parse(new TextDecoder().decode(document?.value))).toMatchObject({ state: 'closed' });
  plane.aheadMs = 0;
  await close();
}, 90_000);

test('documents of a kind are read whole, beyond one page', async () => {
  const keys = Array.from({ length: 2_345 }, (_, at) => `doc_${String(at).padStart(5, '0')}`);
  for (let from = 0; from < keys.length; from += 32) {
    const documents = keys
      .slice(from, from + 32)
      .map((key) => ({ kind: 'query', key, value: json({ key, text: 'x'.repeat(100) }), expectedVersion: 0n }));
    const entry = { type: 'admin.changed', stream: 'admin', emittedMs: BigInt(plane.now()), body: json({}) };
    const reply = await plane.audit.append({ entries: [{ id: `ent_page_${from}`, ...entry }], documents });
    expect(reply.refusal).toBeUndefined();
  }
  expect((await plane.audit.listDocuments('query')).map(({ key }) => key)).toEqual(keys);
});

test('people behind one address have a count of requests each', async () => {
  const left = async (as: string) =>
    Number((await plane.request('GET', '/v1/me', { as })).headers.get('x-ratelimit-remaining'));
  const [ann, bob] = [await left('ann'), await left('bob')];
  for (let at = 1; at <= 5; at += 1) expect(await left('ann')).toBe(ann - at);
  expect(await left('bob')).toBe(bob - 1);
});
