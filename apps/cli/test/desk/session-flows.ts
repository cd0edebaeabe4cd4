import { chmodSync, chownSync, statSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { endOf } from '../../src/embedded/samples.ts';
import { axeProblems } from './axe-problems.ts';
import { inProject, LIMIT_MS, openCall, row, stage, stateOf, submit, withPage, write } from './desk-hands.ts';

const SCRIPT = '#!/bin/sh\nAPI_TOKEN=abc123 deploy --now\necho deployed\n';

/** Review beyond yes and no, live sessions, hosts. */
export function sessionFlows(): void {
  describe('reviewing', () => {
    test('the text of a script that a command starts is shown masked, and one that changed since says so', () =>
      withPage({}, async ({ page }) => {
        const { uid, gid } = statSync(inProject('.'));
        writeFileSync(inProject('deploy.sh'), SCRIPT);
        chownSync(inProject('deploy.sh'), uid, gid);
        chmodSync(inProject('deploy.sh'), 0o755);
        const call = await submit('bash', { command: 'sudo sh ./deploy.sh' });
        await openCall(page, call);
        const script = page.locator('[data-exact^="Script "]').filter({ hasText: 'deployed' });
        await script.waitFor();
        expect(await script.textContent()).toBe('#!/bin/sh\nAPI_TOKEN=‹masked› deploy --now\necho deployed\n');
        writeFileSync(inProject('deploy.sh'), `${SCRIPT}rm -rf /\n`);
        await page.reload();
        await page.getByText('CHANGED since the call was submitted').waitFor();
      }));

    test('an approval takes time and paths away, and the order is held to it', () =>
      withPage({}, async ({ page }) => {
        const call = await submit('bash', { command: 'sudo id' });
        await openCall(page, call);
        await page.getByText('Approve less than was asked').click();
        await page.getByLabel('Stop after (seconds)').fill('9999999');
        await page.getByText('A whole number of seconds').waitFor();
        expect(await page.getByRole('button', { name: 'Approve narrowed' }).count()).toBe(0);
        await page.getByLabel('Stop after (seconds)').fill('7');
        await page.getByLabel('Paths that become read-only').fill(inProject('kept'));
        expect(await axeProblems(page)).toEqual([]);
        await page.getByRole('button', { name: 'Approve narrowed' }).click();
        await endOf(call);
        const kept = await stage.installation.client('local-approver').callById(call.callId);
        expect(kept.ok && kept.value).toMatchObject({ decidedByName: 'local-approver' });
        await page.goto(new URL(`/calls/${call.callId}`, page.url()).href);
        await page.getByText('Stopped after 7 s').waitFor();
      }));

    test('a denial that stops the turn ends its other calls too', () =>
      withPage({}, async ({ page }) => {
        const [call, other] = [await write('turn-1.txt'), await write('turn-2.txt')];
        await row(page, other).waitFor();
        await openCall(page, call);
        await page.getByLabel('Reason').fill('stop all of this');
        await page.getByRole('button', { name: 'Deny and stop the turn' }).click();
        expect((await endOf(call)).state).toBe('denied');
        expect((await endOf(other)).state).toBe('cancelled');
      }));
  });

  describe('permission requests', () => {
    test('an agent asks, a person sees line by line what would change and approves, and the agent may go on', () =>
      withPage({ as: 'local-operator' }, async ({ page }) => {
        const update = { type: 'addRules', effect: 'allow', destination: 'session' } as const;
        const rules = [{ toolName: 'write', pattern: 'asked/**' }];
        const asked = stage.agent.requestPermissions({
          ...{ session: stage.session, updates: [{ ...update, rules }], reason: 'many small files' },
        });
        const card = page.locator('[data-request]');
        await card.getByText('An agent asks for more permissions').click();
        await card.getByText(`add allow \`write asked/**\`; for session \`${stage.session}\`; no end`).waitFor();
        await card.getByText('It says: many small files').waitFor();
        expect(await axeProblems(page)).toEqual([]);
        await card.getByRole('button', { name: 'Approve these changes' }).click();
        expect(await asked).toEqual({ ok: true, value: { decidedBy: 'human' } });
        await card.waitFor({ state: 'detached' });
        expect((await endOf(await write('asked/a.txt'))).state).toBe('done');
        const remove = { ...update, type: 'replaceRules', rules: [] } as const;
        const taken = stage.agent.requestPermissions({ session: stage.session, updates: [remove] });
        await card.getByText('An agent asks for more permissions').click();
        await card.getByRole('button', { name: 'Approve these changes' }).click();
        expect((await taken).ok).toBe(true);
      }));
  });

  describe('sessions', () => {
    test('a running command shows its output while it runs, goes on in the background, and is stopped', () =>
      withPage({ at: '/sessions' }, async ({ page }) => {
        const call = await submit('bash', { command: 'i=0; while :; do echo tick $i; i=$((i+1)); sleep 0.2; done' });
        if ((await stateOf(call)) === 'pending' || !(await running(call.callId))) await approve(call.callId);
        await page.locator(`[data-session="${stage.session}"]`).click();
        const line = page.locator(`[data-call="${call.callId}"]`);
        await line.getByRole('button', { name: 'Output' }).click();
        await line.locator('.output .exact').filter({ hasText: 'tick 3' }).waitFor();
        expect(await axeProblems(page)).toEqual([]);
        await line.getByRole('button', { name: 'Send to the background' }).click();
        await line.getByText('in the background').waitFor();
        await line.getByRole('button', { name: 'Stop' }).click();
        await line.locator('.output[data-line="ended"]').waitFor();
        await expect.poll(() => stateOf(call), { timeout: LIMIT_MS }).toBe('stopped');
      }));

    test('an operator states what a session is for and changes its modes, inside the ceilings that are shown', () =>
      withPage({ as: 'local-operator', at: `/sessions/${stage.session}` }, async ({ page }) => {
        await page.getByText('Stated by the agent; nobody checked it.').waitFor();
        await page.getByLabel('What this session is for').fill('tidy <b>the notes</b> \u202eonly');
        await page.getByRole('button', { name: 'State it' }).click();
        await page.getByText('Stated by local-operator.').waitFor();
        await page.locator('blockquote').filter({ hasText: 'tidy <b>the notes</b> ⟨U+202E⟩only' }).waitFor();
        const modes = page.getByRole('form', { name: 'Modes' });
        await modes.getByText('Ceilings of the policy').waitFor();
        expect(await modes.locator('option[value="full_access"]').isDisabled()).toBe(true);
        await modes.getByLabel('Permission mode').selectOption('strict');
        await modes.getByRole('button', { name: 'Change modes' }).click();
        await page.locator('.facts').getByText('strict · ').waitFor();
        await modes.getByLabel('Permission mode').selectOption('dev');
        await modes.getByRole('button', { name: 'Change modes' }).click();
        await page.locator('.facts').getByText('dev · ').waitFor();
        await page.getByRole('region', { name: 'Permission files' }).waitFor();
        expect(await axeProblems(page)).toEqual([]);
      }));

    test('`always` shows its rule before the click, what comes of it is told, and the rule is revoked in the ledger', () =>
      withPage({ as: 'local-operator' }, async ({ page }) => {
        await setMode('strict');
        const call = await submit('bash', { command: 'ls -a' });
        const other = await write('stays-open.txt');
        await row(page, other).waitFor();
        await openCall(page, call);
        await page.getByText('Approve always would save this rule').click();
        const offer = page.locator('.always');
        for (const text of ['local: it allows nothing', 'ls', 'Until']) await offer.getByText(text).first().waitFor();
        await offer.getByRole('button', { name: 'Approve always' }).click();
        await page.locator(`[data-told="${call.callId}"]`).getByText('done', { exact: true }).waitFor();
        await page.getByRole('link', { name: 'Grants' }).click();
        const rule = page.getByRole('region', { name: 'Saved rules' }).locator('[data-rule]').filter({ hasText: 'ls' });
        await rule.getByText('in force').waitFor();
        await page.getByRole('region', { name: 'Trusted files and folders' }).getByLabel('Agent').waitFor();
        expect(await axeProblems(page)).toEqual([]);
        await rule.getByRole('button', { name: 'Revoke' }).click();
        await rule.waitFor({ state: 'detached' });
        await setMode('dev');
      }));

    test('an operator freezes one host and one agent with a reason, and lifts each', () =>
      withPage({ as: 'local-operator', at: '/fleet' }, async ({ page }) => {
        const local = page.locator('[data-host="local"]');
        await local.getByText('bubblewrap').waitFor();
        await local.getByText(/linux/).waitFor();
        for (const [kind, scope] of [
          ['host', 'host:local'],
          ['agent', 'agent:sample'],
          ['session', `session:${stage.session}`],
        ] as const) {
          await page.getByLabel('What to freeze').selectOption(kind);
          if (kind !== 'host') await page.getByLabel('Its id').fill(scope.slice(kind.length + 1));
          await page.getByLabel('Reason').fill('drill');
          await page.getByRole('button', { name: 'Freeze', exact: true }).click();
          await page.locator('.banner').filter({ hasText: scope }).waitFor();
          expect((await endOf(await write('frozen.txt'))).state).not.toBe('done');
          await page.getByRole('button', { name: `Lift ${scope}` }).click();
          await page.locator('.banner').waitFor({ state: 'detached' });
        }
      }));
  });
}

async function setMode(permissionMode: string): Promise<void> {
  const route = `/v1/sessions/${stage.session}/modes`;
  const set = await stage.installation.client('local-operator').request('POST', route, z.unknown(), { permissionMode });
  expect(set.ok).toBe(true);
}

async function running(callId: string): Promise<boolean> {
  const found = await stage.installation.client('local-approver').callById(callId);
  return found.ok && ['dispatched', 'running'].includes(found.value.state);
}

async function approve(callId: string): Promise<void> {
  const client = stage.installation.client('local-approver');
  await expect.poll(async () => (await client.callById(callId)).ok).toBe(true);
  const found = await client.callById(callId);
  if (!found.ok || found.value.state !== 'pending') return;
  await client.decide(callId, { answer: 'approve', reason: '', viewDigest: found.value.viewDigest ?? '' });
}
