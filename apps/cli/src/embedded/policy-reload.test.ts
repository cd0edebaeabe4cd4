import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import type { GatewayClient } from '../gateway-client.ts';
import { verifyLog } from './check.ts';
import {
  callUntil,
  commandOf,
  eventually,
  type FleetUnderTest,
  newSession,
  startFleet,
  waitingView,
} from './fleet-under-test.ts';

let fleet: FleetUnderTest;
let admin: GatewayClient;
let other: GatewayClient;
let session = '';

beforeAll(async () => {
  fleet = await startFleet('policy');
  admin = fleet.installation.client('local-admin');
  other = fleet.installation.secondClient('local-admin');
  session = await newSession(fleet);
}, 90_000);
afterAll(() => fleet?.stop(), 60_000);

const GOOD = { mode: 'dev', ceilings: { mode: 'networked' } };
const denying = (toolName: string, pattern: string) => ({
  ...GOOD,
  denyRules: [{ toolName, pattern, id: 'new-rule' }],
});
const publish = (policy: object | string, by = admin) =>
  by.request('PUT', '/v1/policy', z.looseObject({ version: z.number() }), {
    text: typeof policy === 'string' ? policy : JSON.stringify(policy),
    name: typeof policy === 'string' ? 'policy.yaml' : 'policy.json',
  });
const bash = (command: string) => ({ tool: 'bash', args: { command }, session });
const run = async (command: string) => (await fleet.agent.call(bash(command))).result;

function pidOf(name: string): number {
  const file = path.join(fleet.installation.data.private, 'run/processes.json');
  const { children } = JSON.parse(readFileSync(file, 'utf8')) as { children: { name: string; pid: number }[] };
  return children.find((child) => child.name === name)?.pid ?? 0;
}

test('a published policy holds at every gateway for the next call, with its digest in the record', async () => {
  expect(await publish(denying('bash', 'make *'))).toMatchObject({ ok: true });
  for (let tries = 0; tries < 4; tries += 1)
    expect(await run('make all')).toMatchObject({ state: 'denied', decidedBy: 'rule' });
  expect(await publish(GOOD, other)).toMatchObject({ ok: true });
  for (let tries = 0; tries < 4; tries += 1) expect((await run('echo made')).state).toBe('done');
});

test('a policy with one bad rule is refused whole, with its line, and the last good one stays', async () => {
  const before = (await commandOf(fleet, 'policy', 'show')) as { version: number };
  const bad = 'mode: dev\ndenyRules:\n  - toolName: bash\n    patern: git push *\n';
  expect(await publish(bad)).toMatchObject({
    error: {
      status: 400,
      code: 'countersign.gateway.policy_refused',
      detail: expect.stringContaining('policy.yaml:4'),
    },
  });
  expect(await commandOf(fleet, 'policy', 'show')).toMatchObject({ version: before.version });
});

test('of the waiting calls only those that became stricter are withdrawn, and the agent is told why', async () => {
  const write = (name: string) => ({ tool: 'write', args: { path: name, content: 'x' }, session });
  const hit = await callUntil(fleet, write('hit.txt'), ['pending']);
  const kept = await callUntil(fleet, write('kept.txt'), ['pending']);
  const file = path.join(fleet.root, 'stricter.json');
  writeFileSync(file, JSON.stringify(denying('write', 'hit.txt')));
  await commandOf(fleet, 'policy', 'publish', file);
  expect(await hit.call.result).toMatchObject({ state: 'withdrawn', code: 'countersign.gateway.policy_changed' });
  expect(await waitingView(other, kept.call.callId)).toMatch(/^[0-9a-f]{64}$/);
  kept.call.cancel();
  expect((await kept.call.result).state).toBe('cancelled');
});

test('an order that has not started is withdrawn; what runs goes on', async () => {
  await publish(GOOD);
  const running = await callUntil(fleet, bash('sleep 4; echo lived'), ['dispatched']);
  await eventually(async () => {
    const hosts = await admin.hosts();
    return hosts.ok && hosts.value.some(({ running: count }) => Number(count) > 0) ? true : undefined;
  });
  process.kill(pidOf('runner'), 'SIGSTOP');
  const unstarted = await callUntil(fleet, bash('touch started.txt'), ['dispatched']);
  await publish(denying('bash', '*'));
  process.kill(pidOf('runner'), 'SIGCONT');
  expect((await unstarted.call.result).state).toBe('withdrawn');
  expect(existsSync(path.join(fleet.installation.data.sampleProject, 'started.txt'))).toBe(false);
  expect((await running.call.result).state).toBe('done');
  await publish(GOOD);
});

test('a reload each second under load makes no call fail', async () => {
  const policies = [GOOD, denying('bash', 'never *'), { ...GOOD, allowRules: [{ toolName: 'bash', pattern: 'true' }] }];
  const states: string[] = [];
  let loading = true;
  const load = async () => {
    while (loading) states.push((await run('true')).state);
  };
  const loads = [load(), load(), load()];
  for (let round = 0; round < 5; round += 1) {
    expect(await publish(policies[round % policies.length] ?? GOOD, round % 2 ? admin : other)).toMatchObject({
      ok: true,
    });
    await run('true');
  }
  loading = false;
  await Promise.all(loads);
  expect(states.filter((state) => state !== 'done')).toEqual([]);
  expect(states.length).toBeGreaterThan(5);
  expect((await verifyLog(fleet.installation)).text).toMatch(/^\d+ entries, 0 problems$/);
}, 60_000);
