import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { passEachStep } from '@countersign/kernel';
import {
  CallPayload,
  Control,
  EnvelopeKind,
  ERROR_CODES,
  Heartbeat,
  InspectReply,
  InspectRequest,
  openEnvelope,
  sealTo,
  signEnvelope,
  subjects,
} from '@countersign/protocol';
import { createLogger, type RunningService } from '@countersign/service-kit';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { RunnerConfig } from './config.ts';
import { startRunner } from './service.ts';
import { shellTools } from './work/testing/shell-tools.ts';
import { HOST, type OrderChange, TestFleet, until } from './work/testing/test-fleet.ts';
import { unavailableTools } from './work/unavailable-tools.ts';

let fleet: TestFleet;
let service: RunningService | undefined;
const logger = createLogger({ name: 'test', level: 'fatal' });
const text = (bytes: Uint8Array | undefined) => new TextDecoder().decode(bytes);
const ranTimes = () => (existsSync(fleet.marker) ? readFileSync(fleet.marker, 'utf8').split('\n').length - 1 : 0);

async function startHere(tools = shellTools, change: Partial<RunnerConfig> = {}): Promise<void> {
  const onFault = (error: unknown) => {
    throw error;
  };
  service = await startRunner(
    { ...fleet.config(), ...change },
    {
      tools,
      clock: { now: Date.now },
      logger,
      atStep: passEachStep,
      onFault,
    },
  );
}

beforeEach(async () => {
  fleet = new TestFleet();
  await fleet.start();
});
afterEach(async () => {
  await service?.stop();
  service = undefined;
  await fleet.stop();
});

test('a good order runs once and its result reaches the control key only', async () => {
  await startHere();
  const order = await fleet.send({ args: { command: `echo ran >> ${fleet.marker}; echo out; echo err >&2; exit 3` } });
  const { outcome, states, result } = await fleet.outcomeOf(order.orderId);
  expect(states).toEqual(['running', 'done']);
  expect(outcome).toMatchObject({ callId: order.callId, host: HOST, code: '', backend: 'plain-shell' });
  expect(Buffer.compare(outcome.executedDigest, order.callDigest)).toBe(0);
  expect(result).toMatchObject({ ok: false, exited: true, exitCode: 3 });
  expect([text(result?.stdout), text(result?.stderr)]).toEqual(['out\n', 'err\n']);
  await fleet.workIsEmpty();
  expect(ranTimes()).toBe(1);
});

test('file tools read and write', async () => {
  await startHere();
  const file = path.join(fleet.folder, 'note.txt');
  const write = await fleet.send({ tool: 'write', args: { path: file, content: 'hello' } });
  expect((await fleet.outcomeOf(write.orderId)).states).toEqual(['running', 'done']);
  const read = await fleet.send({ tool: 'read', args: { path: file } });
  expect(text((await fleet.outcomeOf(read.orderId)).result?.content)).toBe('hello');
  const missing = await fleet.send({ tool: 'read', args: { path: `${file}.missing` } });
  expect((await fleet.outcomeOf(missing.orderId)).states).toEqual(['running', 'failed']);
});

test.each<[string, string, string, (fleet: TestFleet) => OrderChange]>([
  ['without a receipt', 'refused', ERROR_CODES.receiptInvalid, () => ({ receipt: null })],
  [
    'with a receipt that the gateway signed itself',
    'refused',
    ERROR_CODES.receiptInvalid,
    ({ keys }) => ({ receiptSigner: keys.gateway }),
  ],
  [
    'with a receipt for another order',
    'refused',
    ERROR_CODES.receiptInvalid,
    () => ({ receipt: { orderId: 'ord_x' } }),
  ],
  ['for another host', 'refused', ERROR_CODES.orderRefused, () => ({ order: { host: 'other' } })],
  ['past its expiry', 'expired', ERROR_CODES.orderExpired, () => ({ order: { expiresAtMs: BigInt(Date.now() - 1) } })],
  [
    'with a precondition that fails',
    'refused',
    ERROR_CODES.changedSinceRequest,
    () => ({
      order: { preconditions: [{ path: '/etc/passwd', realPath: '/etc/passwd', contentDigest: randomBytes(32) }] },
    }),
  ],
])('an order %s does not run and is answered', async (_title, state, code, change) => {
  await startHere();
  const order = await fleet.send(change(fleet));
  const { outcome, states, result } = await fleet.outcomeOf(order.orderId);
  expect({ states, code: outcome.code, result }).toEqual({ states: [state], code, result: undefined });
  expect(ranTimes()).toBe(0);
});

test.each<[string, (fleet: TestFleet) => OrderChange]>([
  ['signed by a stranger', ({ keys }) => ({ envelopeSigner: keys.stranger })],
  ['signed by audit instead of the gateway', ({ keys }) => ({ envelopeSigner: keys.audit })],
  ['signed for another host and delivered here', () => ({ envelopeSubject: subjects.work('other') })],
])('an order %s does not run and says nothing', async (_title, change) => {
  await startHere();
  const forged = await fleet.send(change(fleet));
  const good = await fleet.send({ args: { command: 'true' } });
  await fleet.outcomeOf(good.orderId);
  await fleet.workIsEmpty();
  expect(fleet.outcomesOf(forged.orderId)).toEqual([]);
  expect(ranTimes()).toBe(0);
});

test('an order that is published again does not run again, also after a restart', async () => {
  await startHere();
  const { order, bytes } = await fleet.order();
  await fleet.publish(bytes);
  await fleet.outcomeOf(order.orderId);
  await fleet.publish(bytes);
  await fleet.workIsEmpty();
  await service?.stop();
  await startHere();
  await fleet.publish(bytes);
  await fleet.workIsEmpty();
  expect(ranTimes()).toBe(1);
});

test('an order waits while the beat is stale and starts when it is fresh', async () => {
  fleet.beatAgeMs = 15_000;
  await startHere();
  const order = await fleet.send();
  const probe = await fleet.send({ order: { expiresAtMs: BigInt(Date.now() + 1_500) } });
  expect((await fleet.outcomeOf(probe.orderId)).states).toEqual(['expired']);
  expect(ranTimes()).toBe(0);
  fleet.beatAgeMs = 0;
  expect((await fleet.outcomeOf(order.orderId)).states).toEqual(['running', 'done']);
  expect(ranTimes()).toBe(1);
});

test('no more than the configured number of calls run at once', async () => {
  await startHere();
  const go = path.join(fleet.folder, 'go');
  const held = { command: `echo ran >> ${fleet.marker}; while [ ! -e ${go} ]; do sleep 0.05; done` };
  const orders = [await fleet.send({ args: held }), await fleet.send({ args: held }), await fleet.send({ args: held })];
  await until(() => ranTimes() === 2, 'two do not run');
  const probe = await fleet.send({ order: { expiresAtMs: BigInt(Date.now() + 800) } });
  expect((await fleet.outcomeOf(probe.orderId)).states).toEqual(['expired']);
  expect(ranTimes()).toBe(2);
  writeFileSync(go, '');
  for (const { orderId } of orders) expect((await fleet.outcomeOf(orderId)).states).toEqual(['running', 'done']);
});

test('a command over its time limit is killed and reported as timed out', async () => {
  await startHere();
  const order = await fleet.send({ args: { command: 'sleep 60', timeout_ms: 200 } });
  expect((await fleet.outcomeOf(order.orderId)).states).toEqual(['running', 'timed_out']);
});

type ControlMessage = { sequence: bigint; action?: string; sessionId?: string; by?: 'stranger'; ageMs?: number };

function control({ orderId, callId }: { orderId: string; callId: string }, more: ControlMessage) {
  const subject = subjects.control(HOST);
  const body = Control.encode(
    Control.fromPartial({
      ...{ action: more.action ?? 'stop', orderId, callId, reason: 'asked to' },
      sessionId: more.sessionId ?? '',
    }),
  ).finish();
  const nowMs = Date.now() - (more.ageMs ?? 0);
  const signer = fleet.keys[more.by ?? 'gateway'];
  const { sequence } = more;
  fleet.gateway.publish(subject, signEnvelope(signer, { kind: EnvelopeKind.CONTROL, subject, body, nowMs, sequence }));
}

test('a stop kills the running call; one that is forged, old or repeated does not', async () => {
  await startHere();
  const command = { command: `echo ran >> ${fleet.marker}; sleep 60` };
  const first = await fleet.send({ args: command });
  await until(() => ranTimes() === 1, 'does not run');
  control(first, { sequence: 5n, by: 'stranger' });
  control(first, { sequence: 5n, ageMs: 31_000 });
  control({ ...first, callId: 'call_other' }, { sequence: 5n });
  control(first, { sequence: 5n });
  const second = await fleet.send({ args: { command: 'true' } });
  await fleet.outcomeOf(second.orderId);
  expect(fleet.outcomesOf(first.orderId)).toEqual([]);
  control(first, { sequence: 6n });
  const { states, result } = await fleet.outcomeOf(first.orderId);
  expect(states).toEqual(['running', 'stopped']);
  expect(result).toMatchObject({ ok: false, reason: 'asked to', signal: 'SIGKILL' });
});

test('an order stopped before it starts is withdrawn', async () => {
  fleet.beating = false;
  await startHere();
  const order = await fleet.send();
  control(order, { sequence: 1n });
  expect((await fleet.outcomeOf(order.orderId)).states).toEqual(['withdrawn']);
  expect(ranTimes()).toBe(0);
});

test('a host whose self-test failed refuses every order and says so in its heartbeat', async () => {
  const heartbeats = fleet.gateway.subscribe(subjects.heartbeat(HOST), { max: 1 });
  await fleet.gateway.flush();
  await startHere(unavailableTools(ERROR_CODES.unimplemented));
  for await (const { data, subject } of heartbeats) {
    const opened = openEnvelope(data, {
      kind: EnvelopeKind.HEARTBEAT,
      subject,
      issuer: fleet.keys.host.publicKey,
      nowMs: Date.now(),
      maxAgeMs: 30_000,
    });
    const heartbeat = Heartbeat.decode(opened.ok ? opened.value.body : new Uint8Array());
    expect(heartbeat).toMatchObject({ host: HOST, ready: false, backends: [] });
    expect(heartbeat.reason).not.toBe('');
  }
  const order = await fleet.send();
  const { states, outcome } = await fleet.outcomeOf(order.orderId);
  expect({ states, code: outcome.code }).toEqual({ states: ['refused'], code: ERROR_CODES.sandboxUnavailable });
});

async function inspect(by: 'gateway' | 'stranger', nonce: Uint8Array, timeout = 10_000): Promise<Uint8Array> {
  const subject = subjects.inspect(HOST);
  const args = JSON.stringify({ path: path.join(fleet.folder, 'new.txt'), content: 'hello' });
  const payload = CallPayload.encode({ salt: randomBytes(32), arguments: new TextEncoder().encode(args) }).finish();
  const body = InspectRequest.encode({
    callId: 'call_1',
    nonce,
    policyFiles: false,
    obligations: undefined,
    programs: [],
    programFiles: [],
    tool: 'write',
    project: fleet.folder,
    sealedPayload: await sealTo(fleet.keys.host.sealPublicKey, payload, 'call_1'),
    pathsOnly: false,
  }).finish();
  const message = { kind: EnvelopeKind.INSPECT_REQUEST, subject, body, nowMs: Date.now(), sequence: 1n };
  const reply = await fleet.gateway.request(subject, signEnvelope(fleet.keys[by], message), { timeout });
  return reply.data;
}

test('an inspection is answered signed, with its nonce, and the diff sealed to the control key', async () => {
  await startHere();
  const nonce = randomBytes(32);
  const opened = openEnvelope(await inspect('gateway', nonce), {
    kind: EnvelopeKind.INSPECT_REPLY,
    subject: subjects.inspect(HOST),
    issuer: fleet.keys.host.publicKey,
    nowMs: Date.now(),
    maxAgeMs: 30_000,
  });
  const reply = InspectReply.decode(opened.ok ? opened.value.body : new Uint8Array());
  expect(Buffer.compare(reply.nonce, nonce)).toBe(0);
  expect(reply).toMatchObject({ callId: 'call_1', errorCode: '', paths: [{ exists: false, realPath: '' }] });
  expect(text(await fleet.keys.control.open(reply.sealedDiff, 'call_1'))).toBe('+hello');
  await expect(inspect('stranger', nonce, 500)).rejects.toThrow();
});

test('of many inspections at once each is answered', async () => {
  await startHere();
  const replies = await Promise.all(Array.from({ length: 64 }, () => inspect('gateway', randomBytes(32))));
  expect(replies.filter((reply) => reply.length > 0)).toHaveLength(64);
});

test('a runner killed after the start answers interrupted and never runs the order again', async () => {
  const child = await fleet.spawnRunner();
  const { order, bytes } = await fleet.order({
    args: { command: `echo ran >> ${fleet.marker}; exec sleep 5` },
  });
  await fleet.publish(bytes);
  await until(() => ranTimes() === 1, 'does not run');
  child.kill('SIGKILL');
  await new Promise((resolve) => child.once('exit', resolve));
  await fleet.spawnRunner();
  const { states, outcome } = await fleet.outcomeOf(order.orderId);
  expect({ states, code: outcome.code }).toEqual({ states: ['running', 'interrupted'], code: ERROR_CODES.interrupted });
  await fleet.workIsEmpty();
  await fleet.publish(bytes);
  await fleet.workIsEmpty();
  expect(ranTimes()).toBe(1);
});

test('an order issued before the journal was made is answered interrupted', async () => {
  const order = await fleet.send();
  await startHere();
  expect((await fleet.outcomeOf(order.orderId)).states).toEqual(['interrupted']);
  expect(ranTimes()).toBe(0);
});

test('an outcome survives the broker being away and a restart of the runner', async () => {
  const child = await fleet.spawnRunner();
  const go = path.join(fleet.folder, 'go');
  const end = path.join(fleet.folder, 'end');
  const order = await fleet.send({
    args: { command: `echo ran >> ${fleet.marker}; while [ ! -e ${go} ]; do sleep 0.05; done; echo > ${end}` },
  });
  await until(() => ranTimes() === 1, 'does not run');
  await fleet.stopBroker();
  writeFileSync(go, '');
  const journal = () => readFileSync(fleet.config().journalFile, 'utf8');
  await until(() => journal().includes('"type":"finished"'), 'not journalled');
  child.kill('SIGKILL');
  await new Promise((resolve) => child.once('exit', resolve));
  await fleet.startBroker();
  await fleet.spawnRunner();
  expect((await fleet.outcomeOf(order.orderId)).states).toEqual(['running', 'done']);
  await until(() => journal().includes('"type":"acknowledged"'), 'not acknowledged');
  await fleet.workIsEmpty();
  expect(ranTimes()).toBe(1);
});

test('an outcome made while the broker is away is sent when it is back', async () => {
  await startHere();
  const go = path.join(fleet.folder, 'go');
  const order = await fleet.send({
    args: { command: `echo ran >> ${fleet.marker}; while [ ! -e ${go} ]; do sleep 0.05; done` },
  });
  await until(() => ranTimes() === 1, 'does not run');
  await fleet.stopBroker();
  writeFileSync(go, '');
  await until(() => readFileSync(fleet.config().journalFile, 'utf8').includes('"type":"finished"'), 'not journalled');
  await fleet.startBroker();
  expect((await fleet.outcomeOf(order.orderId)).states).toEqual(['running', 'done']);
});

test('where the stream acknowledges nothing, an outcome is repeated until a gateway signs that it is recorded', async () => {
  await fleet.stop();
  fleet = new TestFleet();
  await fleet.start({ noAck: true });
  await startHere();
  const first = await fleet.send({ args: { command: 'true' } });
  const second = await fleet.send({ args: { command: 'true' } });
  await until(() => fleet.outcomesOf(first.orderId).length > 1, 'not repeated');
  expect((await fleet.outcomeOf(second.orderId)).states).toEqual(['running', 'done']);
  const acknowledged = () => readFileSync(fleet.config().journalFile, 'utf8').includes('"type":"acknowledged"');
  control(first, { sequence: 1n, action: 'recorded', by: 'stranger' });
  control(second, { sequence: 1n, action: 'unknown' });
  expect(acknowledged()).toBe(false);
  control(first, { sequence: 2n, action: 'recorded' });
  await until(acknowledged, 'not acknowledged');
});

test('a runner asked to end kills what runs and reports it as stopped', async () => {
  const child = await fleet.spawnRunner();
  const pidFile = path.join(fleet.folder, 'pid');
  const order = await fleet.send({ args: { command: `echo $$ > ${pidFile}; echo ran >> ${fleet.marker}; sleep 60` } });
  await until(() => ranTimes() === 1, 'does not run');
  child.kill('SIGTERM');
  const code = await new Promise((resolve) => child.once('exit', resolve));
  expect(code).toBe(0);
  expect((await fleet.outcomeOf(order.orderId)).states).toEqual(['running', 'stopped']);
  expect(() => process.kill(Number(readFileSync(pidFile, 'utf8')), 0)).toThrow();
});

test('a before-hook that denies keeps the call from starting; an after-hook sees how one ended and changes nothing', async () => {
  const script = (name: string, text: string) => {
    const file = path.join(fleet.folder, name);
    writeFileSync(file, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    return { command: [file], tools: [], timeoutMs: 5_000 };
  };
  const deny = script('deny', 'grep -q forbidden && echo "no such command here" && exit 1; exit 0');
  const observe = script('observe', `cat >> ${fleet.folder}/seen; exit 9`);
  await startHere(shellTools, { hooks: { before: [deny], after: [observe] } });
  const denied = await fleet.send({ args: { command: `echo forbidden >> ${fleet.marker}` } });
  expect((await fleet.outcomeOf(denied.orderId)).outcome).toMatchObject({
    code: ERROR_CODES.hookDenied,
    reason: 'no such command here',
  });
  expect([(await fleet.outcomeOf(denied.orderId)).states, ranTimes()]).toEqual([['refused'], 0]);
  const good = await fleet.send({ args: { command: 'exit 4' } });
  expect((await fleet.outcomeOf(good.orderId)).states).toEqual(['running', 'done']);
  const seen = () => (existsSync(`${fleet.folder}/seen`) ? readFileSync(`${fleet.folder}/seen`, 'utf8') : '');
  await until(() => seen().endsWith('\n'), 'the after-hook did not run');
  expect(JSON.parse(seen())).toMatchObject({
    event: 'after',
    call_id: good.callId,
    args: { command: 'exit 4' },
    outcome: { state: 'done', exit_code: 4 },
  });
});

test('a host whose journal has no room starts nothing and says so', async () => {
  await startHere(shellTools, { minFreeBytes: Number.MAX_SAFE_INTEGER });
  const order = await fleet.send();
  const { outcome, states } = await fleet.outcomeOf(order.orderId);
  expect([states, outcome.reason, ranTimes()]).toEqual([['refused'], expect.stringContaining('nearly full'), 0]);
});

test('a command in the background gives its slot back, is told from its end, and is interrupted by a kill of the runner', async () => {
  const child = await fleet.spawnRunner();
  const started = await fleet.send({ tool: 'background', args: { command: `echo ran >> ${fleet.marker}; sleep 30` } });
  expect((await fleet.outcomeOf(started.orderId)).states).toEqual(['running', 'backgrounded']);
  for (let turn = 0; turn < 3; turn += 1) {
    const short = await fleet.send({ args: { command: 'true' } });
    expect((await fleet.outcomeOf(short.orderId)).states).toEqual(['running', 'done']);
  }
  child.kill('SIGKILL');
  await fleet.spawnRunner();
  await until(() => fleet.outcomesOf(started.orderId).length > 1, 'not reported');
  expect(fleet.outcomesOf(started.orderId).at(-1)?.states).toEqual(['running', 'backgrounded', 'interrupted']);
  expect(ranTimes()).toBe(1);
});

test.each([
  ['end_turn', ['running', 'backgrounded'], 1],
  ['end_session', ['running', 'backgrounded', 'stopped'], 2],
])('%s stops what it covers and nothing else', async (action, states, reports) => {
  await startHere();
  const away = await fleet.send({ tool: 'background', args: { command: 'sleep 20' } });
  await fleet.outcomeOf(away.orderId);
  const waiting = await fleet.send({ args: { command: `echo ran >> ${fleet.marker}; sleep 20` } });
  await until(() => ranTimes() === 1, 'does not run');
  control(away, { sequence: 1n, action, sessionId: 'ses_other' });
  control(away, { sequence: 2n, action, sessionId: 'ses_1' });
  expect((await fleet.outcomeOf(waiting.orderId)).states).toEqual(['running', 'stopped']);
  await until(() => fleet.outcomesOf(away.orderId).length === reports, 'not reported');
  expect(fleet.outcomesOf(away.orderId).at(-1)?.states).toEqual(states);
});
