import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import type { Agent, CallOutcome } from '@countersign/agent';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { accepted } from '../local-installation.ts';
import { verifyLog } from './check.ts';
import { enrolSamples } from './enrol.ts';
import { type Installation, startInstallation } from './installation.ts';
import { endOf, sampleAgent } from './samples.ts';

const root = mkdtempSync(path.join(process.getuid?.() === 0 ? '/var/lib' : homedir(), 'countersign-tools-'));
let installation: Installation;
let agent: Agent;
let session = '';

beforeAll(async () => {
  chmodSync(root, 0o711);
  installation = await startInstallation(root, () => undefined);
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

const call = (tool: string, args: object) => agent.call({ tool, args, session });
const finish = async (tool: string, args: object): Promise<CallOutcome> => endOf(await call(tool, args));
const inProject = (name: string) => path.join(installation.data.sampleProject, name);
const text = (name: string) => readFileSync(inProject(name), 'utf8');
const approver = () => installation.client('local-approver');
const contentOf = (outcome: CallOutcome) => new TextDecoder().decode(outcome.result?.content);

/** What an approver sees of a waiting call. */
async function waiting(callId: string): Promise<{ viewDigest: string; diff: string }> {
  let found = { viewDigest: '', diff: '' };
  await expect
    .poll(async () => {
      const answer = await approver().callById(callId);
      if (answer.ok && answer.value.state === 'pending') {
        const { diff = '' } = answer.value.view as { diff?: string };
        found = { viewDigest: answer.value.viewDigest ?? '', diff };
      }
      return found.viewDigest;
    })
    .not.toBe('');
  return found;
}

async function approved(callId: string): Promise<void> {
  const { viewDigest } = await waiting(callId);
  accepted(await approver().decide(callId, { answer: 'approve', viewDigest }));
}

async function stateOf(callId: string): Promise<string> {
  const found = await approver().callById(callId);
  return found.ok ? found.value.state : '';
}

test('an edit is shown as a diff, runs after approval, and its change is reviewed and rolled back by decided calls', async () => {
  await finish('bash', { command: "printf 'one\\ntwo\\n' > edited.txt; chmod 640 edited.txt" });
  const edit = await call('edit', { path: 'edited.txt', oldText: 'two', newText: 'TWO' });
  const view = await waiting(edit.callId);
  expect(view.diff).toContain('-two\n+TWO\n');
  accepted(await approver().decide(edit.callId, { answer: 'approve', viewDigest: view.viewDigest }));
  const outcome = await endOf(edit);
  expect([outcome.state, text('edited.txt')]).toEqual(['done', 'one\nTWO\n']);
  expect(contentOf(outcome)).toContain('-two\n+TWO\n');

  const shown = accepted(await approver().changeOf(edit.callId));
  expect(shown).toMatchObject({ path: inProject('edited.txt'), state: 'unreviewed', before: { size: 8 } });
  expect(shown.diff).toContain('+TWO');
  accepted(await approver().reviewChange(edit.callId));
  expect(accepted(await approver().changeOf(edit.callId)).state).toBe('reviewed');

  const rollback = accepted(await approver().rollback(edit.callId, false));
  expect([rollback.state, (await waiting(rollback.callId)).diff]).toEqual(['pending', expect.stringContaining('+two')]);
  expect(text('edited.txt')).toBe('one\nTWO\n');
  await approved(rollback.callId);
  await expect.poll(() => stateOf(rollback.callId)).toBe('done');
  expect(text('edited.txt')).toBe('one\ntwo\n');
  const listed = accepted(await approver().changes({})).map(({ callId, state }) => [callId, state]);
  expect(listed).toEqual([
    [rollback.callId, 'unreviewed'],
    [edit.callId, 'rolled_back'],
  ]);
  expect((await verifyLog(installation)).text).toMatch(/, 0 problems$/);
});

test('a file that is deleted after approval is named in the record; search leaves nothing of it', async () => {
  await finish('bash', { command: 'echo needle > gone.txt; echo needle > stays.txt' });
  expect(contentOf(await finish('search', { pattern: 'needle' }))).toBe('gone.txt:1:needle\nstays.txt:1:needle\n');
  const removal = await call('delete', { path: 'gone.txt' });
  await approved(removal.callId);
  expect([(await endOf(removal)).state, existsSync(inProject('gone.txt'))]).toEqual(['done', false]);
  expect(contentOf(await finish('search', { pattern: 'needle' }))).toBe('stays.txt:1:needle\n');
  expect(accepted(await approver().changeOf(removal.callId))).toMatchObject({ after: null });
});

test('an edit that does not fit is rejected before anybody is asked, and says why', async () => {
  await finish('bash', { command: 'echo aa > twice.txt' });
  const outcome = await finish('edit', { path: 'twice.txt', oldText: 'a', newText: 'b' });
  expect(outcome).toMatchObject({ state: 'rejected', code: 'countersign.runner.tool_failed' });
  expect(outcome.reason).toContain('more than once');
});

test('a file that changed while the approver looked at its diff is not edited', async () => {
  await finish('bash', { command: 'echo one > raced.txt' });
  const edit = await call('edit', { path: 'raced.txt', oldText: 'one', newText: 'two' });
  await waiting(edit.callId);
  await finish('bash', { command: 'echo "one by the user" > raced.txt' });
  await approved(edit.callId);
  expect((await endOf(edit)).state).toBe('refused');
  expect(text('raced.txt')).toBe('one by the user\n');
});
