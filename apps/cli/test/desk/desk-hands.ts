import path from 'node:path';
import type { SubmittedCall } from '@countersign/agent';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { type DeskPage, type DeskStage, type OpenOptions, startDeskStage } from './desk-stage.ts';

export const LIMIT_MS = 10_000;
/** The installation that the tests of one file share. */
export let stage: DeskStage;

/** Starts the installation before the tests of a file; cancels what still waits after each. */
export function useDeskStage(): void {
  beforeAll(async () => {
    stage = await startDeskStage();
  }, 120_000);
  afterAll(() => stage?.stop(), 60_000);
  afterEach(async () => {
    const operator = stage.installation.client('local-operator');
    const waiting = await operator.calls({ state: 'pending', limit: 500 });
    for (const { callId } of waiting.ok ? waiting.value : []) await operator.cancel(callId, 'the test is over');
  });
}

export const submit = (tool: string, args: object): Promise<SubmittedCall> =>
  stage.agent.call({ tool, args, session: stage.session });
export const write = (name: string, content = `content of ${name}\n`) => submit('write', { path: name, content });
export const inProject = (name: string) => path.join(stage.installation.data.sampleProject, name);
export const row = (page: Page, { callId }: SubmittedCall) => page.locator(`a[data-call="${callId}"]`);
export const stateOf = async ({ callId }: SubmittedCall) => {
  const found = await stage.installation.client('local-approver').callById(callId);
  return found.ok ? found.value.state : '';
};
/** Opens a page for one test; nothing may have been stopped by its content security policy, and nothing thrown. */
export async function withPage(options: OpenOptions, use: (desk: DeskPage) => Promise<void>): Promise<void> {
  const desk = await stage.open(options);
  desk.page.setDefaultTimeout(LIMIT_MS);
  try {
    await use(desk);
    expect(desk.violations).toEqual([]);
  } catch (error) {
    const shown = await desk.page.locator('body').textContent();
    throw new Error(
      `${error instanceof Error ? error.message : error}\nthe page shows: ${(shown ?? '').slice(0, 2_000)}`,
      {
        cause: error,
      },
    );
  } finally {
    await desk.context.setOffline(false);
    await desk.page.close();
  }
}

export async function openCall(page: Page, call: SubmittedCall): Promise<void> {
  await row(page, call).click();
  await page.locator('.decision[data-settled="true"]').waitFor();
}
