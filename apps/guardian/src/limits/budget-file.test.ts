import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type GuardianUnderTest, guardianUnderTest, KEY } from '../../test/guardian-under-test.ts';
import { say, verdict } from '../../test/scripted-endpoint.ts';

const APPROVE = verdict('approve', 'runs the tests');
const DENY = verdict('deny', 'removes data');
let folder = '';
let stateFile = '';
let running: GuardianUnderTest | undefined;

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'budget-'));
  stateFile = path.join(folder, 'state.json');
});
afterEach(async () => {
  await running?.stop();
  running = undefined;
  rmSync(folder, { recursive: true });
});

/** Starts a Guardian; one that ran before is stopped, as by a restart. */
async function start(limits: object, more: Partial<Parameters<typeof guardianUnderTest>[0]> = {}) {
  await running?.stop();
  running = await guardianUnderTest({ script: say(APPROVE), config: { limits, stateFile }, ...more });
  return running;
}

test('what a session and an hour have spent outlives a restart', async () => {
  const limits = { requestsPerSession: 2, requestsPerHour: 3 };
  const before = await start(limits);
  for (const sessionId of ['ses_a', 'ses_a'])
    expect(await before.review({ sessionId })).toMatchObject({ approve: true });
  const after = await start(limits);
  expect((await after.review({ sessionId: 'ses_a' })).reason).toContain('the session has spent its 2 review requests');
  expect(await after.review({ sessionId: 'ses_b' })).toMatchObject({ approve: true });
  expect((await after.review({ sessionId: 'ses_c' })).reason).toContain('the 3 review requests of this hour are spent');
  expect(statSync(stateFile).mode & 0o077).toBe(0);
  expect(readFileSync(stateFile, 'utf8')).not.toContain(KEY);
});

test.each(['', '{}', '{"sessions":[["ses_a",-1]],"recent":[]}', 'null'])(
  'budgets that read `%s` keep the service from starting, instead of starting anew',
  async (text) => {
    writeFileSync(stateFile, text);
    await expect(guardianUnderTest({ script: say(APPROVE), config: { stateFile } })).rejects.toThrow(
      /move the file away/,
    );
  },
);

test('a request that cannot be counted is not sent', async () => {
  const guardian = await start({});
  rmSync(folder, { recursive: true });
  const reply = await guardian.review();
  expect(reply).toMatchObject({ approve: false, category: 'unavailable' });
  expect(reply.reason).toContain('what is spent cannot be written down');
  expect(guardian.endpoint.asked).toHaveLength(0);
  folder = mkdtempSync(path.join(tmpdir(), 'budget-'));
});

test('opinions leave half of the hour to reviews that decide', async () => {
  const guardian = await start({ requestsPerHour: 4 });
  const ask = (advisory: boolean) => guardian.review({ sessionId: 'ses_a', advisory });
  for (let at = 0; at < 2; at += 1) expect((await ask(true)).category).toBe('reviewed');
  expect((await ask(true)).reason).toContain('the requests of this hour for opinions are spent');
  for (let at = 0; at < 2; at += 1) expect(await ask(false)).toMatchObject({ approve: true });
});

test('opinions that deny pause no session', async () => {
  const guardian = await start({ denialsInRow: 2 }, { script: say(DENY) });
  for (let at = 0; at < 3; at += 1)
    expect(await guardian.review({ advisory: true })).toMatchObject({ category: 'reviewed', callHuman: false });
  expect(await guardian.review()).toMatchObject({ category: 'reviewed', callHuman: false });
});

test('a key of the environment reaches the endpoint, and neither log nor reply', async () => {
  const provider = { apiKeyFile: undefined, apiKeyVariable: 'MODEL_KEY' };
  const guardian = await start({}, { provider, keys: new Map([['prov', KEY]]) });
  const reply = await guardian.review();
  expect(reply).toMatchObject({ approve: true });
  expect(JSON.stringify(guardian.endpoint.asked[0]?.headers ?? {})).toContain(KEY);
  expect(
    guardian.log() + JSON.stringify(reply, (_, value) => (typeof value === 'bigint' ? Number(value) : value)),
  ).not.toContain(KEY);
});

test('a variable that is not set is no key, and the variable is named', async () => {
  const guardian = await start({}, { provider: { apiKeyFile: undefined, apiKeyVariable: 'MODEL_KEY' } });
  const reply = await guardian.review();
  expect(reply).toMatchObject({ approve: false, category: 'misconfigured' });
  expect(reply.reason).toContain('variable `MODEL_KEY` does not hold exactly one key');
  expect(guardian.endpoint.asked).toHaveLength(0);
});
