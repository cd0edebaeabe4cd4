import { randomUUID } from 'node:crypto';
import type { QueueSource } from '@countersign/policy';
import { signApproverList } from '@countersign/protocol';
import { SoftwarePasskey } from '@countersign/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ControlPlane, type TestToken } from '../testing/control-plane.ts';

const TOKENS: readonly TestToken[] = [
  { name: 'boss', role: 'admin' },
  { name: 'audrey', role: 'auditor' },
  ...(['ann', 'bob', 'dan'] as const).map((name) => ({ name, role: 'approver' as const, groups: ['dev'] })),
  { name: 'cyd', role: 'approver', groups: ['sec'] },
  { name: 'lea', role: 'approver', groups: ['leads'] },
  { name: 'rita', role: 'approver', groups: ['dev', 'sec', 'leads'] },
  { name: 'rolf', role: 'approver', groups: ['dev', 'sec', 'leads'] },
  { name: 'eve', role: 'approver', groups: ['readers'] },
  { name: 'vic', role: 'viewer', groups: ['dev'] },
];

const ALWAYS = { timeZone: 'UTC', from: '00:00', to: '23:59' };
/** Every kind of queue, with people whose approvals satisfy it. */
const KINDS: Readonly<Record<string, { rule: QueueSource; people: string[] }>> = {
  group: { rule: { approvers: ['dev'] }, people: ['ann'] },
  two: { rule: { approvers: ['dev'], approvals: 2 }, people: ['ann', 'bob'] },
  both: {
    rule: {
      quorum: [
        { group: 'dev', count: 2 },
        { group: 'sec', count: 1 },
      ],
    },
    people: ['ann', 'cyd', 'bob'],
  },
  duties: { rule: { approvers: ['dev'], separationOfDuties: true }, people: ['ann'] },
  hours: { rule: { approvers: ['dev'], windows: [ALWAYS] }, people: ['ann'] },
  raised: { rule: { approvers: ['sec'], escalation: { afterMinutes: 1, approvers: ['leads'] } }, people: ['cyd'] },
  lent: { rule: { approvers: ['sec'], approvals: 2, delegation: true }, people: ['cyd', 'rolf'] },
  glass: { rule: { approvers: ['sec'], breakGlass: { groups: ['leads'], reviewHours: 24 } }, people: ['cyd'] },
  due: { rule: { approvers: ['dev'], slaMinutes: 30 }, people: ['ann'] },
  passkey: { rule: { approvers: ['dev'], passkey: true }, people: ['ann'] },
  passkeys: {
    rule: {
      quorum: [
        { group: 'dev', count: 1 },
        { group: 'sec', count: 1 },
      ],
      passkey: true,
    },
    people: ['ann', 'cyd'],
  },
};
const queues = Object.fromEntries(
  Object.entries(KINDS).map(([name, { rule }]) => [name, { ...rule, readers: ['readers', 'dev', 'sec', 'leads'] }]),
);

const plane = new ControlPlane();
const [RP, ORIGIN] = ['desk.example', 'https://desk.example'];
const passkeys = new Map(TOKENS.map(({ name }) => [name, new SoftwarePasskey(RP, ORIGIN)]));
beforeAll(async () => {
  const policy = { permissions: { queues }, ceilings: {}, security: {} };
  await plane.start(TOKENS, { policy, passkeys: { rpId: RP, origins: [ORIGIN] } });
  const approvers = [...passkeys].map(([name, passkey]) => passkey.approver(name));
  const signed = signApproverList(plane.root, { version: 1, rpId: RP, origins: [ORIGIN], approvers });
  const body = { signed: Buffer.from(signed).toString('base64') };
  await plane.request('PUT', '/v1/approver-list', { as: 'boss', body });
}, 60_000);
afterAll(() => plane.stop());

type Call = {
  state: string;
  viewDigest: string;
  passkey: boolean;
  approval?: { answered: string[]; missing: object[]; dueMs?: number };
};
const read = async (callId: string): Promise<Call> =>
  (await (await plane.request('GET', `/v1/calls/${callId}`, { as: 'boss' })).json()) as Call;

/** The passkey's answer of a person, where the call's queue asks for one. */
async function signedBy(callId: string, as: string): Promise<object> {
  const asked = await plane.request('POST', `/v1/calls/${callId}/challenge`, { as });
  const passkey = passkeys.get(as);
  if (!asked.ok || !passkey) return {};
  const { nonce, statement } = (await asked.json()) as { nonce: string; statement: string };
  const made = passkey.assert(Buffer.from(nonce, 'base64url'), Buffer.from(statement, 'base64url'));
  const text = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64url');
  const assertion = {
    ...{ nonce, statement, credentialId: text(made.credentialId), signature: text(made.signature) },
    ...{ clientDataJSON: text(made.clientDataJson), authenticatorData: text(made.authenticatorData) },
  };
  return { assertion };
}

type Decision = { answer?: string; viewDigest?: string; reason?: string; breakGlass?: boolean };
async function decide(callId: string, as: string, change: Decision = {}, headers: object = {}) {
  const { viewDigest, passkey } = await read(callId);
  const signed = passkey && as !== '' && change.answer !== 'deny' ? await signedBy(callId, as) : {};
  const body = { answer: 'approve', viewDigest, ...signed, ...change };
  const answer = await plane.request('POST', `/v1/calls/${callId}/decision`, {
    ...(as === '' ? {} : { as }),
    body,
    headers,
  });
  return { status: answer.status, ...((await answer.json()) as { state?: string; code?: string; detail?: string }) };
}

const newCall = (queue: string, principal = 'rita') => plane.pendingCall({ queue, principal });

async function signedIn(subject: string): Promise<Record<string, string>> {
  const made = await plane.request('POST', '/v1/login-links', { as: 'boss', body: { subject } });
  const answer = await plane.request('GET', ((await made.json()) as { path: string }).path);
  const cookie = (answer.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
  const me = (await (await plane.request('GET', '/v1/me', { headers: { cookie } })).json()) as { csrf: string };
  return { cookie, 'x-csrf-token': me.csrf };
}

async function lend(giver: string, receiver: string, groups: string[]): Promise<string> {
  const headers = await signedIn(giver);
  const body = { receiver, groups, days: 1 };
  const answer = await plane.request('POST', '/v1/delegations', { headers, body });
  return ((await answer.json()) as { id: string }).id;
}
const unlend = (id: string) => plane.request('DELETE', `/v1/delegations/${id}`, { as: 'boss' });

describe.each(Object.entries(KINDS))('queue `%s`', (name, { people }) => {
  test('the answers of its people decide, the last one at once, and nobody else is named', async () => {
    const callId = await newCall(name);
    for (const [at, person] of people.entries()) {
      const last = at === people.length - 1;
      expect(await decide(callId, person)).toMatchObject({ status: 200, state: last ? 'approved' : 'pending' });
    }
    expect((await read(callId)).state).toBe('dispatched');
    const entries = (await plane.entries()).filter(({ call, type }) => call === callId && type === 'approval.answered');
    expect(entries.map(({ approver }) => (approver as { subject: string }).subject)).toEqual(people);
    const { counted } = (entries.at(-1)?.detail ?? {}) as { counted?: string[] };
    expect(counted?.toSorted()).toEqual(people.toSorted());
  });

  test("a stranger's, a viewer's, the requester's, his delegator's, a stale, a double and a replayed answer are refused", async () => {
    const callId = await newCall(name);
    const lent = await lend('rolf', 'rita', ['dev', 'sec', 'leads']);
    for (const [who, detail] of [
      ['eve', /no group/],
      ['vic', /roles/],
      ['rita', /made for himself/],
      ['rolf', /requester acts for you/],
    ] as const)
      for (const answer of ['approve', 'deny'])
        expect([who, await decide(callId, who, { answer })]).toMatchObject([
          who,
          { status: 403, detail: expect.stringMatching(detail) },
        ]);
    await unlend(lent);
    const [first = '', ...others] = people;
    expect((await decide(callId, first, { viewDigest: '0'.repeat(64) })).code).toMatch(/stale_view$/);
    expect((await read(callId)).state).toBe('pending');
    expect((await decide(callId, first)).status).toBe(200);
    const double = await decide(callId, first);
    expect(double.status).toBe(others.length === 0 ? 409 : 403);
    for (const person of others) await decide(callId, person);
    expect((await decide(callId, first)).status).toBe(409);
    const decisions = (await plane.entries()).filter(({ call, type }) => call === callId && type === 'decision');
    expect(decisions.length).toBe(1);
  });

  test('one denial of its people decides at once', async () => {
    const callId = await newCall(name);
    expect(await decide(callId, people[0] ?? '', { answer: 'deny' })).toMatchObject({ status: 200, state: 'denied' });
  });
});

test('answers at the same moment over two connections are all kept, and one decision comes of them', async () => {
  const callId = await newCall('both');
  const answers = await Promise.all(['ann', 'bob', 'dan', 'cyd'].map((person) => decide(callId, person)));
  expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(3);
  expect((await read(callId)).state).toBe('dispatched');
  const types = (await plane.entries()).filter(({ call }) => call === callId).map(({ type }) => type);
  expect(types.filter((type) => type === 'decision').length).toBe(1);
});

test('a waiting call says who has answered, who is missing and when an answer is due', async () => {
  const callId = await newCall('both');
  await decide(callId, 'ann');
  expect((await read(callId)).approval).toMatchObject({
    answered: ['ann'],
    missing: [
      { group: 'dev', count: 1 },
      { group: 'sec', count: 1 },
    ],
  });
  const refusalFor = async (as: string) => {
    const answer = await plane.request('GET', `/v1/calls/${callId}`, { as });
    return ((await answer.json()) as { refusal?: string }).refusal;
  };
  expect(await refusalFor('ann')).toMatch(/answered already|once/);
  expect(await refusalFor('rita')).toMatch(/made for himself/);
  expect(await refusalFor('eve')).toMatch(/no group/);
  expect(await refusalFor('bob')).toBe(undefined);
  const due = await newCall('due');
  const { approval } = await read(due);
  expect(Math.abs((approval?.dueMs ?? 0) - Date.now() - 30 * 60_000)).toBeLessThan(60_000);
});

test('a person who has lost the group or the role when the last answer lands does not count', async () => {
  const subject = `tim-${randomUUID().slice(0, 8)}`;
  const put = (roles: string[], groups: string[], active = true) =>
    plane.request('PUT', `/v1/people/${subject}`, { as: 'boss', body: { roles, groups, active } });
  for (const lose of [
    () => put(['approver'], []),
    () => put(['viewer'], ['dev']),
    () => put(['approver'], ['dev'], false),
  ]) {
    await put(['approver'], ['dev']);
    const callId = await newCall('two');
    expect((await decide(callId, '', {}, await signedIn(subject))).state).toBe('pending');
    await lose();
    expect((await decide(callId, 'ann')).state).toBe('pending');
    expect((await decide(callId, 'bob')).state).toBe('approved');
  }
});

describe('delegation', () => {
  test('a delegate decides for his giver, once for both, and no longer when it ends', async () => {
    const id = await lend('cyd', 'eve', ['sec']);
    const callId = await newCall('lent');
    expect((await decide(callId, 'eve')).state).toBe('pending');
    expect((await decide(callId, 'cyd')).detail).toMatch(/answered for you/);
    expect((await decide(callId, 'rolf')).state).toBe('approved');
    const entry = (await plane.entries()).find(({ call, type }) => call === callId && type === 'approval.answered');
    expect(entry?.detail).toMatchObject({ for: ['cyd'] });
    const other = await newCall('lent');
    expect((await decide(other, 'eve')).state).toBe('pending');
    await unlend(id);
    expect((await decide(other, 'rolf')).state).toBe('pending');
    expect((await decide(await newCall('lent'), 'eve')).detail).toMatch(/no group/);
  });

  test('two who lend to each other count once each, and one person through two channels counts once', async () => {
    const [there, back] = [await lend('cyd', 'rolf', ['sec']), await lend('rolf', 'cyd', ['sec'])];
    const callId = await newCall('lent');
    expect((await decide(callId, 'cyd')).state).toBe('pending');
    expect((await decide(callId, '', {}, await signedIn('cyd'))).detail).toMatch(/answered already/);
    expect((await read(callId)).state).toBe('pending');
    expect((await decide(callId, 'rolf')).state).toBe('approved');
    for (const id of [there, back]) await unlend(id);
    const entries = (await plane.entries()).filter(({ call, type }) => call === callId && type === 'approval.answered');
    const { counted } = (entries.at(-1)?.detail ?? {}) as { counted?: string[] };
    expect(counted?.toSorted()).toEqual(['cyd', 'rolf']);
  });

  test('nobody decides under his name in other letters', async () => {
    const callId = await newCall('group', 'Ann');
    expect((await decide(callId, 'ann')).detail).toMatch(/made for himself/);
  });

  test('nobody lends what he does not hold, passes on what he was lent, or lends to himself', async () => {
    const id = await lend('cyd', 'eve', ['sec']);
    const headers = await signedIn('eve');
    const give = async (receiver: string, groups: string[]) =>
      (await plane.request('POST', '/v1/delegations', { headers, body: { receiver, groups, days: 1 } })).status;
    expect([await give('ann', ['sec']), await give('ann', ['dev']), await give('eve', ['readers'])]).toEqual([
      403, 403, 403,
    ]);
    expect((await plane.request('DELETE', `/v1/delegations/${id}`, { headers })).status).toBe(404);
    await unlend(id);
  });
});

test('an escalation lets its groups decide after the delay, and not before', async () => {
  const callId = await newCall('raised');
  expect((await decide(callId, 'lea')).detail).toMatch(/no group/);
  plane.aheadMs = 61_000;
  expect((await decide(callId, 'lea')).state).toBe('approved');
  plane.aheadMs = 0;
});

describe('breaking glass', () => {
  const emergency = { breakGlass: true, reason: 'production is down, ticket 4711' };

  test('needs a named person who signed in a moment ago, a reason, and is not for the requester', async () => {
    const callId = await newCall('glass');
    expect((await decide(callId, 'lea', emergency)).detail).toMatch(/token is not enough/);
    const headers = await signedIn('lea');
    expect((await decide(callId, '', { ...emergency, reason: 'x' }, headers)).detail).toMatch(/reason/);
    plane.aheadMs = 6 * 60_000;
    expect((await decide(callId, '', emergency, headers)).code).toMatch(/sign_in_again$/);
    const later = await signedIn('lea');
    plane.aheadMs = 6 * 60_000 - 61_000;
    expect((await decide(callId, '', emergency, later)).status).toBe(401);
    plane.aheadMs = 0;
    expect((await decide(callId, '', emergency, await signedIn('rita'))).detail).toMatch(/made for himself/);
    expect((await decide(callId, '', emergency, await signedIn('ann'))).detail).toMatch(/may not break glass/);
    expect((await decide(await newCall('group'), '', emergency, headers)).detail).toMatch(/may not break glass/);
    expect((await decide(callId, '', { ...emergency, viewDigest: '0'.repeat(64) }, headers)).code).toMatch(
      /stale_view$/,
    );
    expect((await read(callId)).state).toBe('pending');
  });

  test('decides alone, says so at once, is reviewed by somebody else, and is blocked while a review is overdue', async () => {
    const events = await fetch(`${plane.address}/v1/events`, {
      headers: { authorization: `Bearer ${plane.tokens.get('audrey')}` },
    });
    const callId = await newCall('glass');
    expect((await decide(callId, '', emergency, await signedIn('lea'))).state).toBe('approved');
    const reader = (events.body as ReadableStream<Uint8Array>).getReader();
    let seen = '';
    while (!seen.includes('event: break_glass')) seen += new TextDecoder().decode((await reader.read()).value);
    await reader.cancel();
    expect(seen).toContain(callId);
    const review = (as: string) =>
      plane.request('POST', `/v1/reviews/${callId}`, { as, body: { verdict: 'justified', note: 'it was down' } });
    expect((await review('lea')).status).toBe(403);
    plane.aheadMs = 25 * 3_600_000;
    const next = await newCall('glass');
    expect((await decide(next, '', emergency, await signedIn('lea'))).detail).toMatch(/has not been reviewed/);
    expect([(await review('audrey')).status, (await review('boss')).status]).toEqual([200, 409]);
    expect((await decide(next, '', emergency, await signedIn('lea'))).state).toBe('approved');
    await plane.request('POST', `/v1/reviews/${next}`, {
      as: 'boss',
      body: { verdict: 'unjustified', note: 'no ticket' },
    });
    plane.aheadMs = 0;
    const acts = (await plane.entries()).filter(({ type }) => type === 'admin.changed').map(({ detail }) => detail);
    expect(acts).toContainEqual(
      expect.objectContaining({
        what: 'break_glass.reviewed',
        by: 'audrey',
        call: callId,
        of: 'lea',
        verdict: 'justified',
        note: 'it was down',
      }),
    );
  });
});
