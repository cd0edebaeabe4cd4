import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import type { Agent, SubmittedCall } from '@countersign/agent';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { verifyLog } from './check.ts';
import { installationPath } from './data-folder.ts';
import { enrolSamples } from './enrol.ts';
import { type Installation, startInstallation } from './installation.ts';
import { endOf, sampleAgent } from './samples.ts';

const root = mkdtempSync(path.join(process.getuid?.() === 0 ? '/var/lib' : homedir(), 'countersign-steps-'));
const armFile = path.join(root, 'kill-at');
let installation: Installation;
let agent: Agent;
let session = '';

const main = (room: string, file: string) => [path.join(installationPath(), 'apps', room, 'src/test', file), armFile];

beforeAll(async () => {
  chmodSync(root, 0o711);
  installation = await startInstallation(root, () => undefined, {
    longestRestartMs: 250,
    mains: {
      gateway: main('gateway', 'killed-gateway.ts'),
      audit: main('audit', 'killed-audit.ts'),
      runner: main('sandbox-runner', 'killed-runner.ts'),
    },
  });
  await enrolSamples(installation);
  agent = await sampleAgent(installation);
  const opened = await agent.openSession({ project: installation.data.sampleProject, host: 'local' });
  if (!opened.ok) throw new Error(opened.error.message);
  session = opened.value.sessionId;
}, 90_000);

afterAll(async () => {
  await agent?.close();
  await installation?.stop();
  rmSync(root, { recursive: true, force: true });
}, 60_000);

/** Approves until the call no longer waits: an approver whose request broke off reads the call and answers again. */
async function approve({ callId }: SubmittedCall): Promise<void> {
  const approver = installation.client('local-approver');
  const step = async (): Promise<boolean> => {
    const found = await approver.callById(callId);
    if (!found.ok) return false;
    if (!['received', 'pending'].includes(found.value.state)) return true;
    const viewDigest = found.value.viewDigest ?? '';
    if (viewDigest !== '') await approver.decide(callId, { answer: 'approve', viewDigest });
    return false;
  };
  await expect.poll(() => step().catch(() => false), { timeout: 30_000, interval: 200 }).toBe(true);
}

/** Runs one call while the process that reaches `step` first is killed there; tells its end and its effects. */
async function callKilledAt(step: string): Promise<{ state: string; effects: number }> {
  const effects = path.join(installation.data.sampleProject, `${step}.txt`);
  writeFileSync(armFile, step);
  const waits = step.startsWith('answer.');
  const submitted = waits
    ? await agent.call({ tool: 'write', args: { path: `${step}.txt`, content: 'effect\n' }, session })
    : await agent.call({ tool: 'bash', args: { command: `echo effect >> ${step}.txt` }, session });
  if (waits) await approve(submitted);
  const { state } = await endOf(submitted);
  await expect.poll(() => existsSync(armFile), { timeout: 15_000 }).toBe(false);
  const lines = existsSync(effects) ? readFileSync(effects, 'utf8').split('\n').filter(Boolean).length : 0;
  return { state, effects: lines };
}

const POLL = { timeout: 30_000, interval: 200 };

/** A command that has begun on its host and would go on for ten minutes. */
async function running(name: string): Promise<SubmittedCall> {
  const args = { command: `echo begun > ${name}.begun; sleep 600` };
  const call = await agent.call({ tool: 'bash', args, session });
  const file = path.join(installation.data.sampleProject, `${name}.begun`);
  await expect.poll(() => existsSync(file), POLL).toBe(true);
  return call;
}

const ONCE = { state: 'done', effects: 1 };

test.each([
  ['gateway', 'call.taken', ONCE],
  ['gateway', 'call.recorded', ONCE],
  ['gateway', 'order.published', ONCE],
  ['gateway', 'call.announced', ONCE],
  ['gateway', 'answer.taken', ONCE],
  ['gateway', 'answer.recorded', ONCE],
  ['gateway', 'outcome.taken', ONCE],
  ['gateway', 'outcome.recorded', ONCE],
  ['gateway', 'outcome.announced', ONCE],
  ['audit', 'append.received', ONCE],
  ['audit', 'batch.loaded', ONCE],
  ['audit', 'batch.judged', ONCE],
  ['audit', 'batch.committed', ONCE],
  ['audit', 'batch.answered', ONCE],
  ['audit', 'checkpoint.signed', ONCE],
  ['audit', 'checkpoint.stored', ONCE],
  ['runner', 'order.taken', ONCE],
  ['runner', 'order.verified', ONCE],
  ['runner', 'start.journalled', { state: 'interrupted', effects: 0 }],
  ['runner', 'tool.ended', { state: 'interrupted', effects: 1 }],
  ['runner', 'end.journalled', ONCE],
  ['runner', 'outcome.sending', ONCE],
  ['runner', 'outcome.acknowledged', ONCE],
])(
  'a kill of the %s at %s loses nothing, repeats nothing and leaves a log that verifies',
  async (_process, step, expected) => {
    expect(await callKilledAt(step)).toEqual(expected);
    await expect
      .poll(
        () =>
          verifyLog(installation)
            .then(({ text }) => text)
            .catch(String),
        { timeout: 30_000 },
      )
      .toMatch(/^\d+ entries, 0 problems$/);
  },
  90_000,
);

test('a stop that a gateway recorded before it was killed ends the command, once', async () => {
  const call = await running('stopped');
  writeFileSync(armFile, 'stop.recorded');
  await installation
    .client('local-approver')
    .cancel(call.callId, 'enough')
    .catch(() => undefined);
  expect((await endOf(call)).state).toBe('stopped');
  expect(existsSync(armFile)).toBe(false);
  expect((await verifyLog(installation)).text).toMatch(/^\d+ entries, 0 problems$/);
}, 90_000);

test('a session whose gateway was killed while it deleted it has nothing waiting and nothing running left', async () => {
  const runs = await running('deleted');
  const waits = await agent.call({ tool: 'write', args: { path: 'never.txt', content: 'x' }, session });
  await expect
    .poll(async () => {
      const found = await installation.client('local-approver').callById(waits.callId);
      return found.ok && found.value.state;
    }, POLL)
    .toBe('pending');
  writeFileSync(armFile, 'session.closed');
  const route = `/v1/sessions/${session}?reason=over`;
  await installation
    .client('local-operator')
    .request('DELETE', route, z.unknown())
    .catch(() => undefined);
  expect([(await endOf(runs)).state, (await endOf(waits)).state]).toEqual(['stopped', 'cancelled']);
  expect(existsSync(armFile)).toBe(false);
  expect((await verifyLog(installation)).text).toMatch(/^\d+ entries, 0 problems$/);
}, 90_000);
