import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { SubmittedCall } from '@countersign/agent';
import {
  CallCancel,
  createIdentity,
  EnvelopeKind,
  type IdentityFile,
  openIdentity,
  rosterDraftSchema,
  signEnvelope,
  signRoster,
  signRotation,
  subjects,
  WorkOrder,
} from '@countersign/protocol';
import { connectNats, inboxPrefix, type NatsConnection } from '@countersign/service-kit';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { accepted } from '../local-installation.ts';
import { verifyLog } from './check.ts';
import { enrolSamples } from './enrol.ts';
import {
  answerAndEnd,
  callUntil,
  commandOf,
  eventually,
  type FleetUnderTest,
  newSession,
  startFleet,
} from './fleet-under-test.ts';
import { startInstallation } from './installation.ts';
import { writePrivateJson } from './private-file.ts';
import { endOf, sampleAgent } from './samples.ts';

let fleet: FleetUnderTest;
let gateway: NatsConnection;
const before = new Map<string, IdentityFile>();
/** A call that the agent's first key signed, and that waits. */
let ofFirstKey: SubmittedCall;

const identityOf = (name: string): IdentityFile =>
  JSON.parse(readFileSync(path.join(fleet.installation.data.keys, `${name}.json`), 'utf8')) as IdentityFile;
const inRoot = (name: string) => path.join(fleet.root, name);
const runnerLog = () => readFileSync(path.join(fleet.installation.data.private, 'logs/runner.log'), 'utf8');
const gatewayLogs = () =>
  ['gateway', 'gateway-2']
    .map((name) => readFileSync(path.join(fleet.installation.data.private, `logs/${name}.log`), 'utf8'))
    .join('');
const connectAs = ({ role, id, seed }: Pick<IdentityFile, 'role' | 'id' | 'seed'>) =>
  connectNats({ url: fleet.installation.endpoints.natsUrl, seed, name: 'test', inboxPrefix: inboxPrefix(role, id) });

const keysSchema = z.object({
  rosterVersion: z.number(),
  keys: z.array(z.object({ role: z.string(), id: z.string(), key: z.string(), state: z.string() })),
});
const stateOf = async (key: string) =>
  keysSchema.parse(await commandOf(fleet, 'keys', 'list')).keys.find((line) => line.key === key)?.state;

beforeAll(async () => {
  fleet = await startFleet('keys');
  for (const name of ['gateway', 'gateway-2', 'audit', 'host-local', 'agent-sample'])
    before.set(name, identityOf(name));
}, 120_000);

afterAll(async () => {
  await gateway?.close();
  await fleet?.stop();
  rmSync(fleet?.root, { recursive: true, force: true });
}, 60_000);

test('gateway, audit, host and agent rotate their keys while calls run: every call ends well and one that waited is approved', async () => {
  const session = await newSession(fleet);
  const proven = await fleet.agent.call({ tool: 'read', args: { path: 'notes.txt' }, session });
  expect((await endOf(proven)).state).toBe('done');
  rmSync(inRoot('evidence'), { recursive: true, force: true });
  await commandOf(fleet, 'audit', 'prove', proven.callId, '--out', inRoot('evidence'));
  const waiting = await callUntil(fleet, { tool: 'write', args: { path: 'a.txt', content: 'a' }, session }, [
    'pending',
  ]);
  ofFirstKey = (await callUntil(fleet, { tool: 'write', args: { path: 'b.txt', content: 'b' }, session }, ['pending']))
    .call;
  let rotating = true;
  const ends: string[] = [];
  const load = (async () => {
    while (rotating) {
      const { state, reason } = await endOf(
        await fleet.agent.call({ tool: 'read', args: { path: 'notes.txt' }, session }),
      );
      ends.push(state === 'done' ? state : `${state}: ${reason}`);
    }
  })();
  for (const [role, id] of [
    ['gateway', 'gateway'],
    ['audit', 'audit'],
    ['gateway', 'gateway-2'],
    ['host', 'local'],
    ['agent', 'sample'],
  ] as const)
    expect(await commandOf(fleet, 'keys', 'rotate', role, id)).toMatchObject({ adopted: true, behind: [] });
  const ended = ends.length;
  await expect.poll(() => ends.length, { timeout: 60_000 }).toBeGreaterThan(ended + 20);
  rotating = false;
  await load;
  expect(ends.filter((end) => end !== 'done')).toEqual([]);
  const approver = fleet.installation.client('local-approver');
  expect(await answerAndEnd(approver, waiting.call, { answer: 'approve' })).toMatchObject({ state: 'done' });
  for (const [name, old] of before) {
    expect(identityOf(name).publicKey).not.toBe(old.publicKey);
    expect(await stateOf(old.publicKey)).toMatch(/^until /);
    expect(await stateOf(identityOf(name).publicKey)).toBe('active');
  }
}, 240_000);

test('the log verifies over the rotations and says who rotated what', async () => {
  expect((await verifyLog(fleet.installation)).text).toMatch(/^\d+ entries, 0 problems$/);
  const log = accepted(await fleet.installation.client('local-auditor').exportLog());
  const acts = log
    .split('\n')
    .filter((line) => line.includes('"leaf"'))
    .map((line) => Buffer.from((JSON.parse(line) as { leaf: string }).leaf, 'base64').toString())
    .filter((leaf) => leaf.includes('admin.changed'));
  const old = before.get('gateway')?.publicKey ?? '';
  expect(
    acts.some((text) => text.includes('roster.published') && text.includes('local-admin') && text.includes(old)),
  ).toBe(true);
  const host = before.get('host-local')?.publicKey ?? '';
  expect(acts.some((text) => text.includes('key.rotated') && text.includes('host:local') && text.includes(host))).toBe(
    true,
  );
  // Its receipt is signed with the key of the audit service before the rotation.
  expect(await commandOf(fleet, 'audit', 'verify', inRoot('evidence'))).toMatchObject({ isClosed: true, problems: [] });
}, 60_000);

test('a revoked gateway key is refused by the broker and by the host; the gateway goes on with its new key', async () => {
  const stolen = before.get('gateway');
  if (!stolen) throw new Error('no key');
  gateway = await connectAs(identityOf('gateway'));
  const subject = subjects.work('local');
  const signer = await openIdentity(stolen);
  const send = () => {
    const body = WorkOrder.encode(WorkOrder.fromPartial({ host: 'local', orderId: 'ord_stolen' })).finish();
    gateway.publish(subject, signEnvelope(signer, { kind: EnvelopeKind.ORDER, subject, body, nowMs: Date.now() }));
  };
  send();
  await expect.poll(() => runnerLog().includes('malformed_order'), { timeout: 20_000 }).toBe(true);
  expect(runnerLog()).not.toContain('wrong_issuer');
  expect(await commandOf(fleet, 'keys', 'revoke', 'control', stolen.publicKey)).toMatchObject({
    revoked: true,
    behind: [],
  });
  send();
  await expect.poll(() => runnerLog().includes('wrong_issuer'), { timeout: 20_000 }).toBe(true);
  await eventually(() =>
    connectAs(stolen).then(
      (open) => open.close().then(() => undefined),
      () => true,
    ),
  );
  const session = await newSession(fleet);
  const call = await fleet.agent.call({ tool: 'read', args: { path: 'notes.txt' }, session });
  expect((await endOf(call)).state).toBe('done');
  expect((await verifyLog(fleet.installation)).text).toMatch(/ 0 problems$/);
}, 120_000);

test('the last key of a role is not revoked by accident', async () => {
  const key = identityOf('audit').publicKey;
  await commandOf(fleet, 'keys', 'revoke', 'control', before.get('audit')?.publicKey ?? '');
  await expect(commandOf(fleet, 'keys', 'revoke', 'control', key)).rejects.toThrow(/last/);
  await expect(commandOf(fleet, 'audit', 'verify', inRoot('evidence'))).rejects.toMatchObject({
    stdout: expect.stringContaining('was revoked; ask for the evidence again'),
  });
}, 60_000);

test("a revoked key of an agent and of a host speak for nobody at either gateway; the members' new keys do", async () => {
  const [agent, host] = [before.get('agent-sample'), before.get('host-local')];
  if (!agent || !host) throw new Error('no key');
  const operator = fleet.installation.client('local-operator');
  const ofNewKey = await callUntil(
    fleet,
    { tool: 'write', args: { path: 'c.txt', content: 'c' }, session: await newSession(fleet) },
    ['pending'],
  );
  for (const [role, id, { publicKey }] of [
    ['agent', 'sample', agent],
    ['host', 'local', host],
  ] as const)
    expect(await commandOf(fleet, 'keys', 'revoke', role, id, publicKey)).toMatchObject({ revoked: true });
  expect(await stateOf(agent.publicKey)).toBe('revoked');
  expect((await endOf(ofFirstKey)).state).toBe('cancelled');
  const approver = fleet.installation.client('local-approver');
  expect(await answerAndEnd(approver, ofNewKey.call, { answer: 'approve' })).toMatchObject({ state: 'done' });
  const signer = await openIdentity(agent);
  const subject = subjects.cancel('sample');
  const broker = await connectAs(identityOf('agent-sample'));
  const body = CallCancel.encode(CallCancel.fromPartial({ callId: 'call_x', reason: 'x' })).finish();
  await eventually(async () => {
    broker.publish(subject, signEnvelope(signer, { kind: EnvelopeKind.CANCEL, subject, body, nowMs: Date.now() }));
    await broker.flush();
    return gatewayLogs().includes('wrong_issuer') || undefined;
  });
  await broker.close();
  const session = await newSession(fleet);
  const call = await fleet.agent.call({ tool: 'bash', args: { command: 'echo on' }, session });
  expect((await endOf(call)).state).toBe('done');
  expect(accepted(await operator.hosts()).map(({ ready }) => ready)).toEqual([true]);
}, 120_000);

test('a stranger cannot rotate the keys of a member, nor can its revoked key', async () => {
  const stranger = await createIdentity('agent', 'sample');
  const revoked = before.get('agent-sample');
  for (const present of [stranger, revoked ?? stranger]) {
    const next = await createIdentity('agent', 'sample');
    const facts = {
      ...{ role: 'agent', id: 'sample', oldKey: present.publicKey },
      ...{ signKey: next.publicKey, sealKey: next.sealPublicKey },
    };
    const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');
    const [consent, proof] = [
      base64(signRotation(await openIdentity(present), facts)),
      base64(signRotation(await openIdentity(next), facts)),
    ];
    const answer = await fleet.installation
      .client('local-operator')
      .request('POST', '/v1/member-keys', z.unknown(), { ...facts, consent, proof });
    expect(answer).toMatchObject({ ok: false, error: { code: 'countersign.gateway.keys_refused' } });
  }
});

const keyFile = (name: string) => path.join(fleet.installation.data.keys, `${name}.json`);
const listed = async () => keysSchema.parse(await commandOf(fleet, 'keys', 'list'));
const runsACall = async () => {
  const call = await fleet.agent.call({ tool: 'read', args: { path: 'notes.txt' }, session: await newSession(fleet) });
  return (await endOf(call)).state === 'done';
};

test('with the root key elsewhere, a draft changes nothing until it is signed and published; then the service takes its new key', async () => {
  const before = identityOf('audit').publicKey;
  const { rosterVersion } = await listed();
  const draft = ['keys', 'rotate', 'audit', 'audit', '--draft', inRoot('draft.json')];
  const drafted = z.object({ key: z.string(), adopted: z.literal(false) }).parse(await commandOf(fleet, ...draft));
  expect([identityOf('audit').publicKey, (await listed()).rosterVersion]).toEqual([before, rosterVersion]);
  const sign = (root: string) =>
    commandOf(fleet, 'keys', 'sign', inRoot('draft.json'), '--root', keyFile(root), '--out', inRoot(`by-${root}`));
  await sign('gateway');
  await expect(commandOf(fleet, 'keys', 'publish', inRoot('by-gateway'))).rejects.toThrow(/keys_refused/);
  const lain = signRoster(
    await openIdentity(identityOf('root')),
    rosterDraftSchema.parse(JSON.parse(readFileSync(inRoot('draft.json'), 'utf8'))),
    Date.now() - 86_400_000,
  );
  writeFileSync(inRoot('by-root-yesterday'), lain);
  await expect(commandOf(fleet, 'keys', 'publish', inRoot('by-root-yesterday'))).rejects.toThrow(
    /sign the draft again/,
  );
  await sign('root');
  expect(await commandOf(fleet, 'keys', 'publish', inRoot('by-root'))).toEqual({
    version: rosterVersion + 1,
    behind: [],
  });
  await expect(commandOf(fleet, 'keys', 'publish', inRoot('by-root'))).rejects.toThrow(/never goes back/);
  expect(await commandOf(fleet, 'keys', 'rotate', 'audit', 'audit')).toMatchObject({ key: drafted.key, adopted: true });
  expect([identityOf('audit').publicKey, existsSync(`${keyFile('audit')}.next`)]).toEqual([drafted.key, false]);
  expect(await runsACall()).toBe(true);
}, 120_000);

test('keys of a new service are made once, for gateway and audit only, and are in the roster', async () => {
  for (const [role, id] of [
    ['gateway', 'gateway-3'],
    ['audit', 'audit-2'],
  ] as const) {
    const create = ['keys', 'create', role, id, '--out', inRoot(`${id}.json`)];
    const { key } = z.object({ key: z.string() }).parse(await commandOf(fleet, ...create));
    expect([await stateOf(key), statSync(inRoot(`${id}.json`)).mode & 0o777]).toEqual(['active', 0o600]);
    await expect(commandOf(fleet, ...create)).rejects.toThrow(/exists; name another file/);
  }
  expect(await runsACall()).toBe(true);
  await expect(commandOf(fleet, 'keys', 'create', 'host', 'x', '--out', inRoot('x.json'))).rejects.toThrow(/made here/);
  expect(existsSync(inRoot('x.json'))).toBe(false);
}, 60_000);

test('a rotation of a host that ended before it removed the waiting keys does not stand in the way of the next one', async () => {
  const present = identityOf('host-local');
  writePrivateJson(`${keyFile('host-local')}.next`, present);
  const rotate = () => commandOf(fleet, 'keys', 'rotate', 'host', 'local');
  expect(await rotate()).toMatchObject({ key: present.publicKey, adopted: true });
  expect(await rotate()).toMatchObject({ adopted: true });
  expect(identityOf('host-local').publicKey).not.toBe(present.publicKey);
  expect(await runsACall()).toBe(true);
}, 60_000);

/** Stops everything and starts it again from what is in the folder. */
async function restart(): Promise<void> {
  await fleet.agent.close();
  await fleet.installation.stop();
  const installation = await startInstallation(fleet.root, () => undefined, { gateways: 2 });
  await enrolSamples(installation);
  const agent = await sampleAgent(installation);
  fleet = { ...fleet, installation, agent, stop: () => agent.close().then(installation.stop) };
}

test('a rotation killed once the roster was published starts again with the key before, and then with the new one', async () => {
  const revoked = before.get('gateway')?.publicKey ?? '';
  const present = identityOf('gateway').publicKey;
  await commandOf(fleet, 'keys', 'rotate', 'gateway', 'gateway', '--draft', inRoot('killed.json'));
  const [root, signed] = [keyFile('root'), inRoot('killed')];
  await commandOf(fleet, 'keys', 'sign', inRoot('killed.json'), '--root', root, '--out', signed);
  // What the killed command did: the record has the roster, and no file of this installation does.
  const body = { signed: readFileSync(signed).toString('base64') };
  accepted(await fleet.installation.client('local-admin').request('PUT', '/v1/roster', z.unknown(), body));
  const { rosterVersion } = await listed();
  await gateway.close();
  await restart();
  expect([await runsACall(), identityOf('gateway').publicKey]).toEqual([true, present]);
  expect(await commandOf(fleet, 'keys', 'rotate', 'gateway', 'gateway')).toMatchObject({ adopted: true });
  const next = identityOf('gateway').publicKey;
  await restart();
  expect([await runsACall(), identityOf('gateway').publicKey]).toEqual([true, next]);
  expect(readFileSync(path.join(fleet.installation.data.private, 'roster.bin'))).toEqual(readFileSync(signed));
  expect([await stateOf(revoked), await stateOf(present), await stateOf(next)]).toEqual([
    'revoked',
    expect.stringMatching(/^until /),
    'active',
  ]);
  expect((await listed()).rosterVersion).toBe(rosterVersion);
  expect((await verifyLog(fleet.installation)).text).toMatch(/ 0 problems$/);
}, 240_000);

test("revoking an agent's newest key cancels what waits and stops what runs; nothing of it starts any more", async () => {
  const session = await newSession(fleet);
  const submit = (tool: string, args: object, state: string) => callUntil(fleet, { tool, args, session }, [state]);
  const waits = await submit('write', { path: 'd.txt', content: 'd' }, 'pending');
  const runs = await submit('bash', { command: 'sleep 300' }, 'dispatched');
  const { publicKey } = identityOf('agent-sample');
  await commandOf(fleet, 'keys', 'revoke', 'agent', 'sample', publicKey);
  const approver = fleet.installation.client('local-approver');
  const stateNow = async (id: string) => accepted(await approver.callById(id)).state;
  await expect.poll(() => stateNow(waits.call.callId), { timeout: 30_000 }).toBe('cancelled');
  await expect.poll(() => stateNow(runs.call.callId), { timeout: 30_000 }).toBe('stopped');
  expect(existsSync(path.join(fleet.installation.data.sampleProject, 'd.txt'))).toBe(false);
}, 120_000);
