import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import type { Agent, CallOutcome } from '@countersign/agent';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { waitForHost } from '../gateway-client.ts';
import { accepted } from '../local-installation.ts';
import { verifyLog } from './check.ts';
import { enrolSamples } from './enrol.ts';
import { type Installation, startInstallation } from './installation.ts';
import { readTokens } from './keys.ts';
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

const pieces = () => {
  const seen: string[] = [];
  return { seen, onOutput: ({ stdout }: { stdout: Uint8Array }) => void seen.push(new TextDecoder().decode(stdout)) };
};
const processes = async (args: object) => contentOf(await finish('process', args));

test('a running command shows its output to agent and desk, goes on in the background and is stopped with its tree', async () => {
  const live = pieces();
  const command = 'echo begun; while true; do sleep 0.2; echo tick; done & (sleep 3; echo late > late.txt) & wait';
  const running = await agent.call({ tool: 'bash', args: { command }, session, onOutput: live.onOutput });
  await expect.poll(() => live.seen.join('')).toContain('begun\ntick');
  const { http } = installation.endpoints;
  const token = readTokens(installation.data)['local-approver'];
  const stream = await fetch(new URL(`/v1/calls/${running.callId}/output`, http), {
    headers: { authorization: `Bearer ${token}` },
  });
  const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
  let streamed = '';
  while (!/event: tail[\s\S]*begun[\s\S]*event: output[\s\S]*tick/.test(streamed))
    streamed += (await reader?.read())?.value ?? '';

  running.background();
  const outcome = await running.result;
  expect(outcome.state).toBe('backgrounded');
  expect(JSON.parse(await processes({ action: 'list' }))).toMatchObject({ id: running.callId, state: 'backgrounded' });
  expect(await processes({ action: 'tail', id: running.callId, max_lines: 1 })).toBe('tick\n');
  await processes({ action: 'stop', id: running.callId });
  await expect.poll(() => stateOf(running.callId)).toBe('stopped');
  while (!streamed.includes('event: end')) streamed += (await reader?.read())?.value ?? 'event: end';
  await finish('bash', { command: 'sleep 3' });
  expect([existsSync(inProject('late.txt')), await processes({ action: 'list' })]).toEqual([false, '']);
  expect((await verifyLog(installation)).text).toMatch(/, 0 problems$/);
}, 60_000);

test('a person sends a running command to the background, and the record says who', async () => {
  const running = await call('bash', { command: 'echo on; sleep 5' });
  const route = `/v1/calls/${running.callId}`;
  const tail = () => approver().request('GET', `${route}/tail`, z.object({ text: z.string() }));
  await expect.poll(tail).toMatchObject({ ok: true, value: { text: 'on\n' } });
  accepted(await approver().request('POST', `${route}/background`, z.looseObject({ outcome: z.string() }), {}));
  expect((await running.result).state).toBe('backgrounded');
  const log = accepted(await installation.client('local-auditor').exportLog());
  const leaves = log.split('\n').flatMap((line) => {
    const { leaf = '' } = line === '' ? {} : (JSON.parse(line) as { leaf?: string });
    return Buffer.from(leaf, 'base64').toString();
  });
  const act = leaves.find((leaf) => leaf.includes('process.backgrounded') && leaf.includes(running.callId)) ?? '{}';
  expect(JSON.parse(act)).toMatchObject({ detail: { by: 'local-approver', call: running.callId, host: 'local' } });
}, 60_000);

test('a command that starts in the background answers at once, and its end is asked for by the same call id', async () => {
  const started = await call('background', { command: 'echo out; sleep 0.5; exit 7' });
  expect((await started.result).state).toBe('backgrounded');
  const again = await agent.call({
    tool: 'background',
    args: { command: 'echo out; sleep 0.5; exit 7' },
    session,
    callId: started.callId,
    untilEnd: true,
  });
  expect(await endOf(again)).toMatchObject({ state: 'done', result: { exitCode: 7, exited: true } });
});

test('a script that changed while a person looked at the command does not run', async () => {
  await finish('bash', { command: "printf 'echo as shown > ran.txt\\n' > job.sh" });
  const job = { command: 'sh job.sh' };
  const asked = await agent.call({ tool: 'bash', args: job, session, tighten: 'ask' });
  await waiting(asked.callId);
  await finish('bash', { command: "printf 'echo changed > ran.txt\\n' > job.sh" });
  await approved(asked.callId);
  expect(await endOf(asked)).toMatchObject({ state: 'refused', code: 'countersign.runner.changed_since_request' });
  expect(existsSync(inProject('ran.txt'))).toBe(false);
  const again = await agent.call({ tool: 'bash', args: job, session, tighten: 'ask' });
  await approved(again.callId);
  expect([(await endOf(again)).state, text('ran.txt')]).toEqual(['done', 'changed\n']);
});

test('a kill of the runner ends what runs in the background and reports it as interrupted', async () => {
  const started = await call('background', {
    command: 'echo > begun.txt; while [ ! -e go ]; do sleep 0.1; done; echo late > survived.txt',
  });
  expect((await started.result).state).toBe('backgrounded');
  await expect.poll(() => existsSync(inProject('begun.txt')), { timeout: 20_000 }).toBe(true);
  const { children } = JSON.parse(readFileSync(path.join(installation.data.private, 'run/processes.json'), 'utf8')) as {
    children: { name: string; pid: number }[];
  };
  process.kill(children.find(({ name }) => name === 'runner')?.pid ?? 0, 'SIGKILL');
  await expect.poll(() => stateOf(started.callId), { timeout: 30_000 }).toBe('interrupted');
  accepted(await waitForHost(installation.client('local-operator'), 'local', 30_000));
  expect((await finish('bash', { command: 'touch go; sleep 1.5; ls' })).state).toBe('done');
  expect([existsSync(inProject('go')), existsSync(inProject('survived.txt'))]).toEqual([true, false]);
}, 90_000);

test('output that is no text is visible, and a cut is counted', async () => {
  const outcome = await finish('bash', { command: "yes | head -n 100000; printf '\\351\\000' >&2" });
  expect([outcome.state, outcome.reason]).toEqual(['done', expect.any(String)]);
  const { stdout, stderr, truncatedBytes } = outcome.result ?? {};
  expect([...(stderr ?? [])]).toEqual([0xe9, 0]);
  expect([stdout?.length ?? 0, Number(truncatedBytes)]).toEqual([expect.any(Number), 200_000 - (stdout?.length ?? 0)]);
  expect((stdout?.length ?? 0) <= 30_000 && new TextDecoder().decode(stdout).split('\n').length <= 2_001).toBe(true);
});
