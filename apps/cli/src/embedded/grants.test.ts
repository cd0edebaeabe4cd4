import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { GatewayClient } from '../gateway-client.ts';
import { accepted } from '../local-installation.ts';
import { verifyLog } from './check.ts';
import {
  answerAndEnd,
  commandOf,
  eventually,
  type FleetUnderTest,
  newSession,
  startFleet,
  waitingView,
} from './fleet-under-test.ts';

let fleet: FleetUnderTest;
let first: GatewayClient;
let second: GatewayClient;

beforeAll(async () => {
  fleet = await startFleet('grants');
  first = fleet.installation.client('local-approver');
  second = fleet.installation.secondClient('local-approver');
}, 90_000);
afterAll(() => fleet?.stop(), 60_000);

const schema = z.object({
  grants: z.array(
    z.looseObject({
      id: z.string(),
      session: z.string(),
      reach: z.array(z.string()),
      givenBy: z.string(),
      uses: z.number(),
    }),
  ),
});
const grantsAt = async (client: GatewayClient, session: string) =>
  accepted(await client.request('GET', `/v1/grants?session=${session}`, schema)).grants;

const inProject = (name: string) => path.join(fleet.installation.data.sampleProject, name);
const write = (session: string, name: string) =>
  fleet.agent.call({ tool: 'write', args: { path: name, content: 'x\n' }, session });
/** `decided` or `waits`, for a call that nobody answers. */
async function fate(session: string, name: string): Promise<string> {
  const call = await write(session, name);
  const waits = waitingView(first, call.callId).then(() => 'waits');
  const end = await Promise.race([call.result.then(({ state, decidedBy }) => `${state} by ${decidedBy}`), waits]);
  if (end === 'waits') call.cancel();
  return end;
}
async function granted(): Promise<{ session: string; grant: string }> {
  const session = await newSession(fleet);
  await answerAndEnd(first, await write(session, 'first.txt'), { answer: 'approve', remember: 'session' });
  const [grant] = await grantsAt(first, session);
  if (!grant) throw new Error('no grant');
  return { session, grant: grant.id };
}
const cli = (...args: string[]) => commandOf(fleet, ...args);

describe('an approval for the session', () => {
  test('answers later calls of its kind at every gateway, is listed with its reach and counted', async () => {
    const { session, grant } = await granted();
    for (const name of ['a.txt', 'b.txt', 'c.txt', 'd.txt']) expect(await fate(session, name)).toBe('done by grant');
    const { sampleProject } = fleet.installation.data;
    const expected = { id: grant, session, givenBy: 'local-approver', reach: [`write \`${sampleProject}\``], uses: 4 };
    expect(await grantsAt(first, session)).toMatchObject([expected]);
    expect(await grantsAt(second, session)).toMatchObject([expected]);
  });

  test('covers its own session only', async () => {
    await granted();
    expect(await fate(await newSession(fleet), 'other.txt')).toBe('waits');
  });

  test('revoked at one gateway cannot be used at any', async () => {
    const { session, grant } = await granted();
    expect(await second.request('DELETE', `/v1/grants/${grant}`, z.unknown())).toMatchObject({ ok: true });
    for (const name of ['a.txt', 'b.txt', 'c.txt']) expect(await fate(session, name)).toBe('waits');
    expect(await eventually(async () => ((await grantsAt(first, session)).length === 0 ? 'gone' : undefined))).toBe(
      'gone',
    );
  });

  test('is not offered where it could not be kept, and then refused', async () => {
    const session = await newSession(fleet);
    const call = await fleet.agent.call({ tool: 'bash', args: { command: 'sudo true' }, session });
    const viewDigest = await waitingView(first, call.callId);
    const seen = accepted(await first.callById(call.callId)) as { view?: { offers?: object } };
    expect(seen.view?.offers).toEqual({ once: true });
    const refused = await first.decide(call.callId, { answer: 'approve', remember: 'session', viewDigest });
    expect(refused).toMatchObject({ ok: false, error: { status: 409, code: 'countersign.gateway.not_offered' } });
    call.cancel();
  });

  test('is listed and revoked on the command line: one, of a session, of an agent, all', async () => {
    const [one, two] = [await granted(), await granted()];
    expect(await cli('grants', 'list', '--session', one.session)).toMatchObject({ grants: [{ id: one.grant }] });
    expect(await cli('grants', 'revoke', one.grant)).toEqual({ revoked: [one.grant] });
    expect(await cli('grants', 'revoke', '--session', two.session)).toEqual({ revoked: [two.grant] });
    const three = await granted();
    expect(await cli('grants', 'revoke', '--agent', 'sample')).toMatchObject({
      revoked: expect.arrayContaining([three.grant]),
    });
    const four = await granted();
    expect(await cli('grants', 'revoke', '--all')).toEqual({ revoked: [four.grant] });
    expect(await cli('grants', 'list')).toEqual({ grants: [] });
  });
});

describe('an approval that narrows', () => {
  test('holds the runner to read-only paths and a shorter time', async () => {
    const session = await newSession(fleet);
    const command = 'sudo -n true; echo a > open.txt; echo b > kept.txt; sleep 20';
    const call = await fleet.agent.call({ tool: 'bash', args: { command }, session });
    const narrow = { readOnlyPaths: ['kept.txt'], timeoutMs: 1_500 };
    const outcome = await answerAndEnd(second, call, { answer: 'approve', narrow });
    expect([outcome.state, existsSync(inProject('open.txt')), existsSync(inProject('kept.txt'))]).toEqual([
      'timed_out',
      true,
      false,
    ]);
  });

  test('never widens', async () => {
    const call = await write(await newSession(fleet), 'narrow.txt');
    const viewDigest = await waitingView(first, call.callId);
    for (const narrow of [{ hosts: ['example.com'] }, { timeoutMs: 86_400_000 }])
      expect(await first.decide(call.callId, { answer: 'approve', viewDigest, narrow })).toMatchObject({
        error: { code: 'countersign.gateway.not_offered' },
      });
    call.cancel();
  });

  test('holds later calls under its grant as well', async () => {
    const session = await newSession(fleet);
    const narrow = { readOnlyPaths: ['secret.txt'] };
    const call = await write(session, 'free.txt');
    expect((await answerAndEnd(first, call, { answer: 'approve', remember: 'session', narrow })).state).toBe('done');
    expect(await fate(session, 'free-too.txt')).toBe('done by grant');
    const held = await (await write(session, 'secret.txt')).result;
    expect([held.state, existsSync(inProject('secret.txt'))]).toEqual(['failed', false]);
  });
});

test('a grant does not survive the last gateway', async () => {
  const { session } = await granted();
  const file = path.join(fleet.installation.data.private, 'run/processes.json');
  const { children } = JSON.parse(readFileSync(file, 'utf8')) as { children: { name: string; pid: number }[] };
  for (const child of children) if (child.name.startsWith('gateway')) process.kill(child.pid, 'SIGKILL');
  await eventually(async () => ((await first.isReady()) && (await second.isReady()) ? true : undefined));
  expect(await grantsAt(first, session)).toEqual([]);
  expect(await fate(session, 'after.txt')).toBe('waits');
  expect((await verifyLog(fleet.installation)).text).toMatch(/^\d+ entries, 0 problems$/);
}, 60_000);
