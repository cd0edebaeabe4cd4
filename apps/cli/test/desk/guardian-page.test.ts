import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { endOf } from '../../src/embedded/samples.ts';
import { axeProblems } from './axe-problems.ts';
import { type DeskStage, startDeskStage } from './desk-stage.ts';

const LIMIT_MS = 30_000;
let stage: DeskStage;
let model: Server;
let decision = 'approve';
let asked = 0;

/** A model behind the chat completions protocol that says what the test wants. */
async function startModel(): Promise<string> {
  model = createServer((request, response) => {
    asked += 1;
    request.resume().on('end', () => {
      const content = JSON.stringify({ decision, reason: 'looks harmless <b>to me</b>' });
      const choices = [{ index: 0, message: { role: 'assistant', content, refusal: null }, finish_reason: 'stop' }];
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: 'judge', choices }));
    });
  });
  await new Promise<void>((resolve) => model.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(model.address() as AddressInfo).port}/v1`;
}

beforeAll(async () => {
  stage = await startDeskStage(`
guardian:
  providers:
    - { name: local, kind: openai, baseUrl: "${await startModel()}", models: [judge], completion: once }
  limits: { denialsInRow: 1 }
review: { shadow: true, minCompared: 1 }
`);
}, 120_000);
afterAll(async () => {
  await stage?.stop();
  model?.close();
}, 60_000);

async function newSession(approvalMode: 'manual' | 'auto'): Promise<string> {
  const { installation, agent } = stage;
  const opened = await agent.openSession({
    project: installation.data.sampleProject,
    host: 'local',
    modelProvider: 'local',
    modelName: 'judge',
    approvalMode,
  });
  if (!opened.ok) throw new Error(opened.error.message);
  return opened.value.sessionId;
}
const write = (session: string, path: string) =>
  stage.agent.call({ tool: 'write', args: { path, content: 'x' }, session });

test('an operator sees differences and figures, confirms a demotion, and lets a paused turn go on', async () => {
  const { page, violations } = await stage.open({ as: 'local-operator' });
  page.setDefaultTimeout(LIMIT_MS);
  const waiting = await write(await newSession('manual'), 'differs.txt');
  await page.locator(`a[data-call="${waiting.callId}"]`).click();
  await page.locator('.decision[data-settled="true"]').waitFor();
  await expect.poll(() => asked, { timeout: LIMIT_MS }).toBe(1);
  await page.reload();
  const opinion = page.locator('.card').filter({ hasText: 'It only advises here; you decide.' });
  await opinion.getByText('looks harmless <b>to me</b>').waitFor();
  await page.locator('.decision[data-settled="true"]').waitFor();
  await page.getByLabel('Reason').fill('not here');
  await page.getByRole('button', { name: 'Deny with reason' }).click();
  expect((await endOf(waiting)).state).toBe('denied');

  await page.getByRole('link', { name: 'Guardian' }).click();
  const difference = page.locator(`[data-difference="${waiting.callId}"]`);
  await difference.getByText('would approve').waitFor();
  await difference.getByText('looks harmless <b>to me</b>').waitFor();
  const figures = page.locator('[data-model^="local/judge@"]');
  await figures.getByText('Proposed: let it advise only. It agreed in 0 % of the last 1.').waitFor();

  decision = 'deny';
  const auto = await newSession('auto');
  expect(await endOf(await write(auto, 'denied.txt'))).toMatchObject({ state: 'denied', decidedBy: 'guardian' });
  const paused = page.locator(`[data-paused="${auto}"]`);
  await paused.waitFor();
  expect(await axeProblems(page)).toEqual([]);
  await paused.getByRole('textbox').fill('looked at it');
  await paused.getByRole('button', { name: 'Let it go on' }).click();
  await page.getByText('No turn is paused.').waitFor();

  const demote = figures.getByRole('button', { name: 'Let it advise only' });
  expect(await demote.isDisabled()).toBe(true);
  await figures.getByRole('textbox').fill('differs too often');
  await demote.click();
  await figures.getByText('advises only').waitFor();
  const waits = await write(auto, 'waits.txt');
  const operator = stage.installation.client('local-operator');
  await expect
    .poll(
      async () => {
        const found = await operator.callById(waits.callId);
        return found.ok ? found.value.state : '';
      },
      { timeout: LIMIT_MS },
    )
    .toBe('pending');
  expect(violations).toEqual([]);
}, 120_000);
