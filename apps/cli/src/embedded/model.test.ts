import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { SubmittedCall } from '@countersign/agent';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import type { GatewayClient } from '../gateway-client.ts';
import { verifyLog } from './check.ts';
import { callUntil, type FleetUnderTest, newSession, startFleet } from './fleet-under-test.ts';

const SEED = 20_261_201;
const STEPS = 70;
const CRASHES = ['gateway', 'gateway-2', 'audit', 'runner'];

let fleet: FleetUnderTest;
beforeAll(async () => {
  fleet = await startFleet('model');
}, 90_000);
afterAll(() => fleet?.stop(), 60_000);

/** Numbers of mulberry32: the same walk for the same seed. */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

type Entry = {
  readonly index: number;
  readonly type: string;
  readonly call?: string;
  readonly decision?: { readonly effect: string; readonly policy_digest?: string };
  readonly detail?: Readonly<Record<string, unknown>>;
};

async function entries(): Promise<Entry[]> {
  const exported = await fleet.installation.client('local-auditor').exportLog();
  if (!exported.ok) throw new Error(exported.error.detail);
  return exported.value.split('\n').flatMap((line) => {
    const { leaf } = line === '' ? {} : (JSON.parse(line) as { leaf?: string });
    return leaf === undefined ? [] : [JSON.parse(Buffer.from(leaf, 'base64').toString()) as Entry];
  });
}

/** One walk over both gateways. Every step may fail as HTTP does; what holds is read from the log afterwards. */
class Walk {
  readonly calls: { readonly call: SubmittedCall; readonly line: string }[] = [];
  private readonly random = randomOf(SEED);
  private readonly sessions: readonly string[];

  constructor(sessions: readonly string[]) {
    this.sessions = sessions;
  }

  async run(): Promise<void> {
    for (let step = 0; step < STEPS; step += 1) await this.step(step).catch(() => undefined);
    await this.quiet(() => this.at().request('DELETE', '/v1/freeze?scope=all&reason=end', z.unknown()));
  }

  private pick<T>(list: readonly T[]): T {
    return list[this.random(list.length)] as T;
  }

  private at(): GatewayClient {
    const { installation } = fleet;
    return this.pick([installation.client('local-admin'), installation.secondClient('local-admin')]);
  }

  private async quiet(work: () => Promise<unknown>): Promise<void> {
    await work().catch(() => undefined);
  }

  private async step(step: number): Promise<void> {
    const kind = this.random(100);
    if (kind < 45) return this.submit(step);
    if (kind < 75) return this.answer();
    if (kind < 80) return this.pick(this.calls).call.cancel('model');
    if (kind < 86) return this.freeze();
    if (kind < 93) return this.publish(step);
    if (kind < 97) return this.quiet(() => this.at().request('DELETE', '/v1/grants?all=true', z.unknown()));
    return this.crash();
  }

  private async submit(step: number): Promise<void> {
    const line = `line-${step}`;
    const command = this.pick([`echo ${line} >> model.txt`, `sudo -n true; echo ${line} >> model.txt`]);
    const request = this.pick([
      { tool: 'bash', args: { command } },
      { tool: 'write', args: { path: `model-${step}.txt`, content: 'x' } },
    ]);
    const deadline = this.random(10) === 0 ? { deadlineMs: Date.now() + 3_000 } : {};
    const call = await fleet.agent.call({ ...request, ...deadline, session: this.pick(this.sessions) });
    this.calls.push({ call, line });
  }

  private async answer(): Promise<void> {
    const waiting = await this.at().calls({ state: 'pending' });
    if (!waiting.ok || waiting.value.length === 0) return;
    const { callId } = this.pick(waiting.value);
    const seen = await this.at().callById(callId);
    const viewDigest = seen.ok ? (seen.value.viewDigest ?? '') : '';
    const answer = this.random(5) === 0 ? 'deny' : 'approve';
    const remember = answer === 'approve' && this.random(2) === 0 ? { remember: 'session' as const } : {};
    // Two people at two gateways at once, every third time.
    const people = this.random(3) === 0 ? [this.at(), fleet.installation.client('local-operator')] : [this.at()];
    await Promise.all(people.map((by) => by.decide(callId, { answer, viewDigest, ...remember })));
  }

  private async freeze(): Promise<void> {
    const scope = this.pick(['all', 'host:local', `session:${this.pick(this.sessions)}`]);
    const body = { scope, reason: 'model', stopRunning: this.random(2) === 0 };
    await this.quiet(() => this.at().request('POST', '/v1/freeze', z.unknown(), body));
    await this.submit(1_000 + this.calls.length);
    const query = new URLSearchParams({ scope, reason: 'model' });
    await this.quiet(() => this.at().request('DELETE', `/v1/freeze?${query}`, z.unknown()));
  }

  private async publish(step: number): Promise<void> {
    const denyRules = this.random(2) === 0 ? [{ toolName: 'write', pattern: `never-${step}*` }] : [];
    const allowRules = [{ toolName: 'bash', pattern: `true ${step}` }];
    const text = JSON.stringify({ mode: 'dev', ceilings: { mode: 'networked' }, allowRules, denyRules });
    await this.quiet(() => this.at().request('PUT', '/v1/policy', z.unknown(), { text, name: 'policy.json' }));
  }

  private async crash(): Promise<void> {
    const file = path.join(fleet.installation.data.private, 'run/processes.json');
    const { children } = JSON.parse(readFileSync(file, 'utf8')) as { children: { name: string; pid: number }[] };
    const child = children.find(({ name }) => name === this.pick(CRASHES));
    if (child) process.kill(child.pid, 'SIGKILL');
  }
}

test('whatever people, rules, freezes, grants and crashes do at two gateways, the log tells one true story of each call', async () => {
  const walk = new Walk([await newSession(fleet), await newSession(fleet)]);
  await walk.run();
  // The end: everything still waiting is cancelled, and the service answers again.
  for (const { call } of walk.calls) call.cancel('the walk is over');
  const outcomes = await Promise.all(walk.calls.map(({ call }) => call.result));
  const last = await callUntil(fleet, { tool: 'bash', args: { command: 'true' }, session: await newSession(fleet) }, [
    'done',
  ]);
  expect(last.state).toBe('done');
  expect((await verifyLog(fleet.installation)).text).toMatch(/^\d+ entries, 0 problems$/);
  const log = await entries();

  const ofCall = (type: string, callId: string) => log.filter((entry) => entry.type === type && entry.call === callId);
  for (const { callId, state } of outcomes) {
    expect([callId, ofCall('call.closed', callId).length, ofCall('decision', callId).length <= 1]).toEqual([
      callId,
      1,
      true,
    ]);
    expect(ofCall('call.closed', callId)[0]?.detail?.state).toBe(state);
  }

  // No effect twice, and none without an order.
  const file = path.join(fleet.installation.data.sampleProject, 'model.txt');
  const lines = existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').filter(Boolean) : [];
  expect(new Set(lines).size).toBe(lines.length);
  for (const { call, line } of walk.calls)
    if (lines.includes(line)) expect(ofCall('dispatch.sent', call.callId).length).toBe(1);

  // Nothing is decided on an older policy, by an ended grant, or sent out while everything is frozen.
  let policy = '';
  let frozen = false;
  const ended = new Set<unknown>();
  for (const { type, detail, decision } of log) {
    if (type === 'policy.changed' || type === 'policy.loaded') policy = String(detail?.digest);
    if (type === 'freeze.set' && detail?.scope === 'all') frozen = true;
    if (type === 'freeze.cleared' && detail?.scope === 'all') frozen = false;
    if (type === 'grant.revoked' || type === 'grant.expired') ended.add(detail?.grant);
    if (type === 'decision') expect(decision?.policy_digest).toBe(policy);
    if (type === 'dispatch.sent') expect(frozen).toBe(false);
    if (type === 'grant.used') {
      const { grants } = z.object({ grants: z.array(z.string()) }).parse(detail);
      expect(grants.filter((grant) => ended.has(grant))).toEqual([]);
    }
  }
}, 180_000);
