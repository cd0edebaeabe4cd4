import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { accepted } from '../local-installation.ts';
import { callUntil, type FleetUnderTest, newSession, startFleet } from './fleet-under-test.ts';

let fleet: FleetUnderTest;
let session = '';

beforeAll(async () => {
  fleet = await startFleet('backends');
  session = await newSession(fleet);
}, 90_000);
afterAll(() => fleet?.stop(), 60_000);

const publish = async (policy: object): Promise<void> => {
  const admin = fleet.installation.client('local-admin');
  const body = { text: JSON.stringify(policy), name: 'policy.json' };
  accepted(await admin.request('PUT', '/v1/policy', z.looseObject({ version: z.number() }), body));
};
const bash = (command: string) => ({ tool: 'bash', args: { command }, session });

/** What the record says of the end of a call. */
async function outcomeOf(callId: string): Promise<Record<string, unknown>> {
  const exported = accepted(await fleet.installation.client('local-auditor').exportLog());
  const leaves = exported.split('\n').flatMap((line) => {
    const { leaf } = line === '' ? {} : (JSON.parse(line) as { leaf?: string });
    return leaf === undefined ? [] : [JSON.parse(Buffer.from(leaf, 'base64').toString())];
  });
  return leaves.findLast((entry) => entry.call === callId && entry.detail?.backend !== undefined)?.detail ?? {};
}

/** Approves the waiting call as a person who saw this view. */
async function approve(callId: string, saw: object): Promise<void> {
  const approver = fleet.installation.client('local-approver');
  const waiting = accepted(await approver.callById(callId));
  expect(waiting.view).toMatchObject(saw);
  accepted(await approver.decide(callId, { answer: 'approve', viewDigest: waiting.viewDigest ?? '' }));
}

// Started as root, commands have an account of their own, which reads nothing of the installation.
test.runIf(process.getuid?.() === 0)(
  'the app-guard runs where the managed layer allows it by name, and view, answer and record say what it is',
  async () => {
    await publish({ mode: 'dev', sandboxBackend: 'app-guard', ceilings: { mode: 'networked', appGuard: true } });
    const { call } = await callUntil(fleet, bash('echo guarded'), ['pending']);
    await approve(call.callId, { backend: 'app-guard' });
    const ended = await call.result;
    expect(ended.state).toBe('done');
    expect(ended.result?.reason).toBe('not isolated: the command ran under the app-guard');
    expect(await outcomeOf(call.callId)).toMatchObject({ backend: 'app-guard', isolation: 'not isolated' });
  },
);

test('a managed layer that does not name the app-guard runs everything in the sandbox', async () => {
  await publish({ mode: 'dev', sandboxBackend: 'app-guard', ceilings: { mode: 'networked' } });
  const { call } = await callUntil(fleet, bash('echo held'), ['done']);
  expect((await call.result).state).toBe('done');
  expect(await outcomeOf(call.callId)).toMatchObject({ backend: 'bubblewrap' });
});

test('a backend that the host does not have runs nothing, and another sandbox stands in only where that is allowed', async () => {
  const policy = { mode: 'dev', sandboxBackend: 'seatbelt', allowBackendFallback: true };
  await publish({ ...policy, ceilings: { mode: 'networked' } });
  const refused = await fleet.agent.call(bash('echo nowhere'));
  expect(await refused.result).toMatchObject({
    state: 'failed',
    reason: 'backend `seatbelt` is off: this host has `bubblewrap`',
  });
  await publish({ ...policy, ceilings: { mode: 'networked', backendFallback: true } });
  const stood = await fleet.agent.call(bash('echo somewhere'));
  expect((await stood.result).state).toBe('done');
  expect(await outcomeOf(stood.callId)).toMatchObject({ backend: 'bubblewrap' });
});
