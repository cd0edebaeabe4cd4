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

test('a stop is sent again, signed anew, until the host reported the end', async () => {
  const line = await plane.connect();
  const sequences: bigint[] = [];
  const subject = subjects.control('local');
  const id = await plane.pendingCall();
  line.subscribe(subject, {
    callback: (_, { data }) => {
      const opened = openEnvelope(data, {
        kind: EnvelopeKind.CONTROL,
        subject,
        issuer: () => true,
        nowMs: plane.now(),
      });
      if (!opened.ok) return;
      const { action, callId } = Control.decode(opened.value.body);
      if (action === 'stop' && callId === id) sequences.push(opened.value.sequence);
    },
  });
  await line.flush();
  const seen = (await (await plane.request('GET', `/v1/calls/${id}`, { as: 'ann' })).json()) as { viewDigest: string };
  const answer = { answer: 'approve', viewDigest: seen.viewDigest };
  await plane.request('POST', `/v1/calls/${id}/decision`, { as: 'ann', body: answer });
  await move(id, [['exec.started', 'running']]);
  await plane.request('POST', `/v1/calls/${id}/cancel`, { as: 'ann', body: {} });
  await expect.poll(() => sequences.length, { timeout: 30_000 }).toBeGreaterThanOrEqual(3);
  expect(sequences).toEqual([...new Set(sequences)].toSorted((a, b) => (a < b ? -1 : 1)));
  await move(id, [
    ['exec.interrupted', 'interrupted'],
    ['call.closed', ''],
  ]);
  await line.close();
}, 60_000);

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
