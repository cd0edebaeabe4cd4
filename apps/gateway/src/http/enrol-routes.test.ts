import { createHash, createPublicKey, verify } from 'node:crypto';
import { leafHash, verifyInclusion, verifySignedNote } from '@countersign/merkle';
import {
  createIdentity,
  openIdentity,
  openRoster,
  parseInvitation,
  proveEnrolment,
  rawPublicKey,
  rootFingerprint,
} from '@countersign/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Journals } from '../broker/journals.ts';
import { ControlPlane, type TestToken } from '../testing/control-plane.ts';

const TOKENS: readonly TestToken[] = [
  { name: 'op', role: 'operator' },
  { name: 'ann', role: 'approver' },
];
const HOUR_MS = 3_600_000;
const sha256 = (data: Uint8Array) => new Uint8Array(createHash('sha256').update(data).digest());
const verifyEd25519 = (key: Uint8Array, message: Uint8Array, signature: Uint8Array) => {
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(key).toString('base64url') };
  return verify(null, message, createPublicKey({ key: jwk, format: 'jwk' }), signature);
};

const plane = new ControlPlane();
beforeAll(() => plane.start(TOKENS), 60_000);
afterAll(() => plane.stop());

const facts = (role: 'host' | 'agent', id: string) => ({
  ...{ role, id, principal: 'zoe', hosts: [], roots: {}, tools: [], queues: ['default'], task: '' },
});

async function invite(role: 'host' | 'agent', id: string, hours = 1): Promise<string> {
  const answer = await plane.request('POST', '/v1/invitations', { as: 'op', body: { member: facts(role, id), hours } });
  return ((await answer.json()) as { text: string }).text;
}

type Change = { as?: string; role?: string; signKey?: string };
async function enrol(text: string, role: 'host' | 'agent', id: string, change: Change = {}) {
  const file = await createIdentity(role, id);
  const identity = await openIdentity(file);
  const keys = { signKey: file.publicKey, sealKey: file.sealPublicKey };
  const invitation = parseInvitation(text)?.id ?? '';
  const proof = proveEnrolment(identity, { invitation, role: change.role ?? role, id: change.as ?? id, ...keys });
  const body = {
    ...keys,
    proof: Buffer.from(proof).toString('base64'),
    ...(change.signKey ? { signKey: change.signKey } : {}),
  };
  return { file, answer: await plane.request('POST', '/v1/enrolments', { as: text, body }) };
}

test('a host makes its own keys and gets root key, roster and a signed checkpoint that covers its entry', async () => {
  const text = await invite('host', 'web-1');
  expect(parseInvitation(text)?.rootFingerprint).toBe(rootFingerprint(plane.files.root.publicKey));
  const { file, answer } = await enrol(text, 'host', 'web-1');
  expect(answer.status).toBe(201);
  const joined = (await answer.json()) as {
    rootKey: string;
    roster: string;
    checkpoint: string;
    entry: { leaf: string; index: number; proof: string[] };
  };
  const roster = openRoster(Buffer.from(joined.roster, 'base64'), joined.rootKey);
  const logKey = roster.ok ? roster.value.members.find(({ role }) => role === 'log')?.signKey : '';
  const note = verifySignedNote(joined.checkpoint, {
    ...{ name: 'countersign/test', publicKey: rawPublicKey(logKey ?? ''), verifyEd25519, sha256 },
  });
  if (!note.ok) throw new Error(note.error.message);
  const leaf = Buffer.from(joined.entry.leaf, 'base64');
  const proof = joined.entry.proof.map((hash) => new Uint8Array(Buffer.from(hash, 'base64')));
  const { size, root } = note.value;
  expect(verifyInclusion(sha256, { leaf: leafHash(sha256, leaf), index: joined.entry.index, size, proof, root })).toBe(
    true,
  );
  expect(JSON.parse(leaf.toString())).toMatchObject({
    type: 'member.joined',
    detail: { role: 'host', id: 'web-1', sign_key: file.publicKey, by: 'op' },
  });
});

test('an invitation works once, also for two at the same moment', async () => {
  const text = await invite('agent', 'coder');
  const answers = await Promise.all([enrol(text, 'agent', 'coder'), enrol(text, 'agent', 'coder')]);
  expect(answers.map(({ answer }) => answer.status).sort()).toEqual([201, 401]);
  expect((await enrol(text, 'agent', 'coder')).answer.status).toBe(401);
  const winner = answers.find(({ answer }) => answer.status === 201);
  const { members } = (await (await plane.request('GET', '/v1/members', { as: 'op' })).json()) as {
    members: { id: string; sign_key: string }[];
  };
  expect(members.find(({ id }) => id === 'coder')?.sign_key).toBe(winner?.file.publicKey);
});

test('an expired, altered or foreign invitation and unproven keys enrol nobody', async () => {
  const expired = await invite('agent', 'late');
  plane.aheadMs = HOUR_MS + 1;
  expect((await enrol(expired, 'agent', 'late')).answer.status).toBe(401);
  plane.aheadMs = 0;
  const text = await invite('agent', 'eve');
  const altered = text.replace(/_[\w-]{43}_/, `_${'A'.repeat(43)}_`);
  const stranger = await createIdentity('agent', 'eve');
  expect((await enrol(altered, 'agent', 'eve')).answer.status).toBe(401);
  expect((await enrol(plane.tokens.get('op') ?? '', 'agent', 'eve')).answer.status).toBe(401);
  expect((await enrol(text, 'agent', 'eve', { signKey: stranger.publicKey })).answer.status).toBe(401);
  expect((await enrol(text, 'agent', 'eve', { as: 'other' })).answer.status).toBe(401);
  expect((await enrol(text, 'agent', 'eve', { role: 'host' })).answer.status).toBe(401);
  expect((await enrol(text, 'agent', 'eve')).answer.status).toBe(201);
});

test('only an operator invites, and neither secret nor its digest is in the log', async () => {
  const body = { member: facts('host', 'x'), hours: 1 };
  expect((await plane.request('POST', '/v1/invitations', { as: 'ann', body })).status).toBe(403);
  const text = await invite('host', 'y');
  const secret = parseInvitation(text)?.secret ?? '';
  const log = JSON.stringify(await plane.entries());
  const digest = createHash('sha256').update(secret).digest('hex');
  expect([log.includes('invitation.created'), log.includes(secret), log.includes(digest)]).toEqual([
    true,
    false,
    false,
  ]);
});

test('a journal that is another one or was set back is in doubt at every gateway until somebody confirms it', async () => {
  const told = (journalId: string, lines: bigint) => ({
    ...{ host: 'journalled', journalId, journalCreatedAtMs: 1n, journalEntries: lines },
  });
  const [one, two] = [await Journals.open(plane.audit, plane.now), await Journals.open(plane.audit, plane.now)];
  const faults = (now: ReturnType<typeof told>) => [one, two].map((each) => each.fault(now));
  expect(faults(told('jrn_a', 3n))).toEqual(['', '']);
  await one.watch([told('jrn_a', 3n)]);
  await two.watch([told('jrn_a', 3n)]);
  for (const each of [one, two]) each.take(told('jrn_a', 9n));
  expect(faults(told('jrn_a', 9n))).toEqual(['', '']);
  expect(faults(told('jrn_a', 8n))[0]).toMatch(/was set back \(8 lines, it had 9\).*confirm-journal journalled/);
  expect(faults(told('jrn_b', 20n))[1]).toMatch(/is a new one/);
  expect((await one.confirm(told('jrn_a', 9n), 'op')).ok).toBe(false);
  expect((await one.confirm(told('jrn_b', 0n), 'op')).ok).toBe(true);
  await two.watch([told('jrn_b', 0n)]);
  expect(faults(told('jrn_b', 0n))).toEqual(['', '']);
  expect(faults(told('jrn_a', 9n)).every((text) => text !== '')).toBe(true);
  const types = (await plane.entries()).filter(({ id }) => String(id).startsWith('ent_journal_journalled'));
  expect(types.map(({ type }) => type)).toEqual(['journal.enrolled', 'journal.confirmed']);
});
