import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { endOf } from '../../src/embedded/samples.ts';
import { accepted } from '../../src/local-installation.ts';
import { openCall, stage, stateOf, submit, withPage, write } from './desk-hands.ts';

const policySchema = z.object({
  policy: z.object({
    permissions: z.record(z.string(), z.unknown()),
    ceilings: z.record(z.string(), z.unknown()),
    security: z.record(z.string(), z.unknown()),
  }),
});

/** Publishes the policy in force with `change` on top for as long as `use` takes. */
async function withPolicy(change: object, use: () => Promise<void>): Promise<void> {
  const admin = stage.installation.client('local-admin');
  const { permissions, ceilings, security } = accepted(await admin.request('GET', '/v1/policy', policySchema)).policy;
  const publish = async (more: object) => {
    const text = JSON.stringify({ ...permissions, ceilings, security, ...more });
    accepted(await admin.request('PUT', '/v1/policy', z.unknown(), { text, name: 'policy.json' }));
  };
  await publish(change);
  try {
    await use();
  } finally {
    await publish({});
  }
}

/** Records what the page asks the browser to show and to play. */
const RECORD_ALARMS = `{
  window.alarms = [];
  window.Notification = class {
    static permission = 'granted';
    static requestPermission = async () => 'granted';
    constructor(title, options) { window.alarms.push(title + ' | ' + options.body); }
  };
  const start = OscillatorNode.prototype.start;
  OscillatorNode.prototype.start = function () { window.alarms.push('tone'); return start.apply(this, arguments); };
  Object.defineProperty(document, 'hidden', { get: () => true });
}`;

/** Several people on one call, less than was asked, being told of calls. */
export function peopleFlows(): void {
  describe('people', () => {
    test('a call that needs two people shows who answered and who is missing, and runs after the second', () =>
      withPolicy({ queues: { default: { approvals: 2 } } }, () =>
        withPage({}, async ({ page }) => {
          const call = await write('two-people.txt');
          await openCall(page, call);
          const approvals = page.getByRole('region', { name: 'Approvals' });
          await approvals.getByText('2 of any approvers').waitFor();
          const recorded = page.waitForResponse('**/decision');
          await page.getByRole('button', { name: 'Approve once' }).click();
          expect((await recorded).status()).toBe(200);
          await page.goto(new URL(`/calls/${call.callId}`, page.url()).href);
          await approvals.getByText('local-approver').waitFor();
          await approvals.getByText('1 of any approvers').waitFor();
          expect(await stateOf(call)).toBe('pending');
          await withPage({ as: 'local-operator' }, async ({ page: second }) => {
            await openCall(second, call);
            await second.getByRole('button', { name: 'Approve once' }).click();
            expect((await endOf(call)).state).toBe('done');
          });
          await page.getByText('This call was decided by local-operator').waitFor();
        }),
      ));

    test('an approval takes a host away, and the call may reach only the other', () =>
      withPage({}, async ({ page }) => {
        const hosts = ['one.example', 'two.example'];
        const call = await submit('bash', { command: 'true', profile: 'networked', hosts, reason: 'to look' });
        await openCall(page, call);
        await page.getByText('Approve less than was asked').click();
        await page.getByLabel('two.example').uncheck();
        await page.getByRole('button', { name: 'Approve narrowed' }).click();
        await endOf(call);
        await page.goto(new URL(`/calls/${call.callId}`, page.url()).href);
        await page.getByText(/can reach one\.example\.$/).waitFor();
      }));

    test('a new call is told by sound and notification only where they are turned on, with its text as text', () =>
      withPage({}, async ({ page }) => {
        await page.addInitScript(RECORD_ALARMS);
        await page.reload();
        await page.getByRole('heading', { name: 'Inbox' }).waitFor();
        const first = await submit('bash', { command: 'sudo echo silent' });
        await page.locator(`a[data-call="${first.callId}"]`).waitFor();
        expect(await page.evaluate('window.alarms')).toEqual([]);
        await page.getByRole('button', { name: 'Settings' }).click();
        for (const name of [/sound/i, /notif/i]) await page.getByRole('menuitemcheckbox', { name }).click();
        await submit('bash', { command: 'sudo echo <b>loud</b> \u202e' });
        await expect
          .poll(() => page.evaluate('window.alarms'), { timeout: 10_000 })
          .toEqual(['tone', expect.stringMatching(/sample.*local.*sudo echo <b>loud<\/b> (?:⟨U\+202E⟩|\\u\{202e\})/)]);
      }));
  });
}
