import { describe, expect, test } from 'vitest';
import { endOf } from '../../src/embedded/samples.ts';
import { axeProblems } from './axe-problems.ts';
import { LIMIT_MS, stage, stateOf, submit, withPage, write } from './desk-hands.ts';

/** Questions to the record, and administration. */
export function officeFlows(): void {
  describe('the record', () => {
    test('a call is found by a filter, its timeline shows every entry, and the answer is there as CSV', () =>
      withPage({ as: 'local-operator', at: '/audit' }, async ({ page }) => {
        const call = await write('searched.txt');
        await expect.poll(() => stateOf(call), { timeout: LIMIT_MS }).toBe('pending');
        await stage.installation.client('local-operator').cancel(call.callId, '<b>why</b>\u202e');
        await endOf(call);
        const search = page.getByRole('region', { name: 'Search the record' });
        await search.getByLabel('Call', { exact: true }).fill(call.callId);
        await search.getByRole('button', { name: 'Search' }).click();
        await search.getByRole('button', { name: call.callId }).first().click();
        const timeline = page.getByRole('region', { name: `Timeline of ${call.callId}` });
        for (const type of ['call.received', 'approval.requested', 'call.cancel_requested', 'call.closed'])
          await timeline.getByText(type, { exact: true }).waitFor();
        await timeline
          .getByText(/ · .*\d:\d\d/)
          .first()
          .waitFor();
        await timeline.getByText('call.cancel_requested', { exact: true }).click();
        await timeline.locator('.exact').filter({ hasText: '<b>why</b>' }).waitFor();
        const csv = await page.request.get(
          new URL((await search.getByText('Download as CSV').getAttribute('href')) ?? '', page.url()).href,
        );
        expect([csv.headers()['content-type'], await csv.text()]).toEqual([
          expect.stringContaining('text/csv'),
          expect.stringContaining(call.callId),
        ]);
        expect(await axeProblems(page)).toEqual([]);
      }));
  });

  describe('the record page by page', () => {
    test('an answer of more than a hundred rows goes on where it stopped', () =>
      withPage({ as: 'local-operator', at: '/audit' }, async ({ page }) => {
        // Each denied call makes three entries.
        const denied = await Promise.all(
          Array.from({ length: 40 }, () => submit('bash', { command: 'git push --force' })),
        );
        await Promise.all(denied.map(endOf));
        const search = page.getByRole('region', { name: 'Search the record' });
        await search.getByRole('button', { name: 'Search' }).click();
        await search.getByText('100 shown').waitFor();
        await search.getByRole('button', { name: 'Show more' }).click();
        await expect.poll(() => search.locator('tbody tr').count(), { timeout: LIMIT_MS }).toBeGreaterThan(100);
        const indexes = await search.locator('tbody tr td:first-child').allTextContents();
        expect(new Set(indexes).size).toBe(indexes.length);
      }));
  });

  describe('insights', () => {
    test('show the denials and rules of the record, in tables too, fit a phone, and are for those who may read the record', () =>
      withPage({ as: 'local-operator', at: '/insights', phone: true }, async ({ page }) => {
        const call = await submit('bash', { command: 'sudo id -un' });
        await expect.poll(() => stateOf(call), { timeout: LIMIT_MS }).toBe('pending');
        const operator = stage.installation.client('local-operator');
        const waiting = await operator.callById(call.callId);
        const viewDigest = waiting.ok ? (waiting.value.viewDigest ?? '') : '';
        await operator.decide(call.callId, { answer: 'deny', reason: 'not <b>as</b> root', viewDigest });
        await endOf(call);
        await endOf(await submit('bash', { command: 'git push --force' }));
        await page.reload();
        const reasons = page.getByRole('region', { name: 'Reasons of denials' });
        await reasons.locator('tr').filter({ hasText: 'not <b>as</b> root' }).filter({ hasText: 'people' }).waitFor();
        await page
          .getByRole('region', { name: 'Busiest rules' })
          .locator('tr')
          .filter({ hasText: 'git push' })
          .filter({ hasText: 'deny' })
          .waitFor();
        const record = await page.request.get(new URL('/v1/audit/queries/volumes?limit=1000&since=1', page.url()).href);
        const { rows } = (await record.json()) as { rows: [number, string, string, number][] };
        const volumes = page.getByRole('region', { name: 'Calls over time' });
        const total = rows.reduce((sum, [, , , calls]) => sum + calls, 0);
        await expect.poll(() => volumes.locator('[data-total]').getAttribute('data-total')).toBe(String(total));
        await volumes.locator('svg.recharts-surface').first().waitFor();
        expect(await page.evaluate('document.querySelector("#content").scrollWidth <= innerWidth')).toBe(true);
        await volumes.getByText('The same as a table').click();
        expect(await axeProblems(page)).toEqual([]);
        await page.getByLabel('Host').fill('nowhere');
        await page.getByLabel('Host').press('Enter');
        await reasons.getByText('Nothing in this period').waitFor();
      }));
  });

  describe('administration', () => {
    test('a person is added, a token is shown once and revoked, and hardened mode is told', () =>
      withPage({ as: 'local-admin', at: '/admin' }, async ({ page }) => {
        const people = page.getByRole('region', { name: 'People' });
        await people.getByLabel('Name').fill('zoe');
        await people.getByLabel(/^Groups/).fill('web, night shift');
        await people.getByRole('button', { name: 'Save' }).click();
        await people.locator('tr').filter({ hasText: 'zoe' }).getByText('web, night shift').waitFor();
        const tokens = page.getByRole('region', { name: 'API tokens' });
        await tokens.getByLabel('Label').fill('<img src=x> for CI');
        await tokens.getByRole('button', { name: 'Create a token' }).click();
        const secret = (await tokens.locator('[data-secret]').textContent()) ?? '';
        const works = async () => {
          const answer = await fetch(new URL('/v1/me', page.url()), { headers: { authorization: `Bearer ${secret}` } });
          return answer.status;
        };
        expect(await works()).toBe(200);
        await tokens.getByRole('button', { name: 'I have copied it' }).click();
        await tokens.locator('[data-secret]').waitFor({ state: 'detached' });
        expect(await page.locator('body').textContent()).not.toContain(secret);
        const row = tokens.locator('tr').filter({ hasText: '<img src=x> for CI' });
        await row.getByRole('button', { name: 'Revoke' }).click();
        await row.getByText('revoked').waitFor();
        expect(await works()).toBe(401);
        await page.getByRole('region', { name: 'Hardened mode' }).getByText('off', { exact: true }).waitFor();
        await page.getByText('No channel is configured.').waitFor();
        expect(await axeProblems(page)).toEqual([]);
      }));

    test('an approver sees neither people nor channels nor insights', () =>
      withPage({ at: '/insights' }, async ({ page }) => {
        await page.getByText('Only auditors, operators and admins see this.').waitFor();
        await page.getByRole('link', { name: 'Administration' }).click();
        await page.getByText('Only operators and admins see this.').waitFor();
        expect(await page.getByRole('region', { name: 'People' }).count()).toBe(0);
      }));
  });
}
