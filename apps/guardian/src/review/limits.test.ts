import { ReviewRequest } from '@countersign/protocol';
import { isServing } from '@countersign/service-kit';
import { afterEach, expect, test } from 'vitest';
import { type GuardianUnderTest, guardianUnderTest, KEY, ORDINARY } from '../../test/guardian-under-test.ts';
import { type Script, say, send, verdict } from '../../test/scripted-endpoint.ts';
import { guardianConfigSchema } from '../config.ts';

const APPROVE = verdict('approve', 'runs the tests');
const DENY = verdict('deny', 'removes data');
/** Time for a review that hangs: its request reaches the endpoint well within half of it, on a loaded machine too. */
const HANG_MS = 3_000;
const LONG_MS = 3_600_000;
const fault: Script = (_asked, response) => send(response, '{}', 500);

let guardian: GuardianUnderTest;
let last: GuardianUnderTest | undefined;
afterEach(async () => {
  if (guardian !== last) await guardian.stop();
  last = guardian;
});

const checkModel = (provider: string, model: string) =>
  new Promise<{ usable: boolean; reason: string; provider: string; model: string }>((resolve, reject) =>
    guardian.client.checkModel({ provider, model }, (error, reply) => (error ? reject(error) : resolve(reply))),
  );

const resume = (sessionId: string) =>
  new Promise<{ resumed: boolean }>((resolve, reject) =>
    guardian.client.resume({ sessionId }, (error, reply) => (error ? reject(error) : resolve(reply))),
  );

test('a provider that only streams is asked nothing, and start-up and session say so', async () => {
  guardian = await guardianUnderTest({ script: say(APPROVE), provider: { completion: 'stream_only' } });
  const reason = 'provider `prov` accepts only streamed requests, so calls that need a review are denied';
  expect(await guardian.review()).toMatchObject({ approve: false, category: 'misconfigured' });
  expect(await checkModel('prov', 'model-1')).toEqual({ usable: false, reason, provider: 'prov', model: 'model-1' });
  expect(guardian.log()).toContain(reason);
  expect(guardian.endpoint.asked).toEqual([]);
});

test('a session whose provider or model is not configured gets no review', async () => {
  guardian = await guardianUnderTest({ script: say(APPROVE) });
  expect(await guardian.review({ provider: 'other' })).toMatchObject({
    category: 'misconfigured',
    reason: 'provider `other` is not configured; the call was not judged unsafe',
  });
  expect(await guardian.review({ model: 'model-2' })).toMatchObject({
    category: 'misconfigured',
    reason: 'model `model-2` is not among the models of provider `prov`; the call was not judged unsafe',
  });
  expect(await checkModel('prov', 'model-1')).toMatchObject({ usable: true, reason: '' });
  expect(guardian.endpoint.asked).toEqual([]);
});

test('a pinned model reviews whatever the session says', async () => {
  guardian = await guardianUnderTest({
    script: say(APPROVE),
    config: { pin: { provider: 'prov', model: 'model-1' } },
  });
  const reply = await guardian.review({ provider: 'own', model: 'tame' });
  expect(reply).toMatchObject({ approve: true, provider: 'prov', model: 'model-1' });
  expect(guardian.endpoint.asked.map((one) => one.model)).toEqual(['model-1']);
  expect(await checkModel('own', 'tame')).toMatchObject({ usable: true, provider: 'prov', model: 'model-1' });
});

test('a pin to a model that cannot review falls back to nothing', async () => {
  guardian = await guardianUnderTest({ script: say(APPROVE), config: { pin: { provider: 'gone', model: 'model-1' } } });
  expect(await guardian.review()).toMatchObject({ approve: false, category: 'misconfigured', provider: 'gone' });
});

test('a key file that others can read is refused', async () => {
  guardian = await guardianUnderTest({ script: say(APPROVE), keyMode: 0o644 });
  const reply = await guardian.review();
  expect(reply).toMatchObject({ approve: false, category: 'misconfigured' });
  expect(reply.reason).toContain('is open to others; set mode 0600');
  expect(guardian.endpoint.asked).toEqual([]);
});

test.each([
  ['is missing', '/nowhere/key'],
  ['is a folder', '/'],
  ['is empty', '/dev/null'],
])('a key file that %s is no key', async (_title, apiKeyFile) => {
  guardian = await guardianUnderTest({ script: say(APPROVE), provider: { apiKeyFile } });
  expect(await guardian.review()).toMatchObject({ approve: false, category: 'misconfigured' });
  expect(guardian.endpoint.asked).toEqual([]);
});

test('the key goes to the endpoint, and neither key nor texts to log or reply', async () => {
  guardian = await guardianUnderTest({ script: fault, kind: 'anthropic' });
  const reply = await guardian.review({ detail: JSON.stringify({ command: 'echo tell-tale' }) });
  expect(guardian.endpoint.asked[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
  const said = guardian.log() + reply.reason;
  expect(said).not.toContain(KEY);
  expect(said).not.toContain('tell-tale');
  expect(said).not.toContain(ORDINARY.requestText);
});

test('environment variables of the SDKs choose neither key nor address', async () => {
  const before = { ...process.env };
  Object.assign(process.env, {
    OPENAI_API_KEY: 'stray',
    OPENAI_BASE_URL: 'http://127.0.0.1:9',
    OPENAI_ORG_ID: 'stray',
    OPENAI_LOG: 'debug',
  });
  try {
    guardian = await guardianUnderTest({ script: say(APPROVE) });
    expect(await guardian.review()).toMatchObject({ approve: true });
    expect(JSON.stringify(guardian.endpoint.asked[0]?.headers)).not.toContain('stray');
    expect(guardian.endpoint.asked[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
  } finally {
    process.env = before;
  }
});

test('a provider that fails again and again is left alone', async () => {
  const config = { tries: 1, limits: { breakerFaults: 3, breakerOpenMs: LONG_MS } };
  guardian = await guardianUnderTest({ script: fault, config });
  for (let at = 0; at < 6; at += 1) expect(await guardian.review()).toMatchObject({ category: 'unavailable' });
  expect(guardian.endpoint.asked).toHaveLength(3);
});

test('a provider that was left alone is tried again and believed', async () => {
  const script: Script = (asked, response, turn) => (turn <= 3 ? fault : say(APPROVE))(asked, response, turn);
  const config = { tries: 1, limits: { breakerFaults: 3, breakerOpenMs: 1 } };
  guardian = await guardianUnderTest({ script, config });
  await expect.poll(async () => (await guardian.review()).approve, { timeout: 10_000 }).toBe(true);
  expect(guardian.endpoint.asked).toHaveLength(4);
  expect(await guardian.review()).toMatchObject({ approve: true });
});

test('a provider that hangs is left alone too', async () => {
  const config = { deadlineMs: HANG_MS, limits: { breakerFaults: 2, breakerOpenMs: LONG_MS } };
  guardian = await guardianUnderTest({ script: () => undefined, config });
  const hanging = await Promise.all(['call_a', 'call_b'].map((callId) => guardian.review({ callId })));
  expect(hanging.map((reply) => reply.category)).toEqual(['timed_out', 'timed_out']);
  expect(await guardian.review()).toMatchObject({ category: 'unavailable' });
  expect(guardian.endpoint.asked).toHaveLength(2);
});

test('a provider that answers badly is not left alone', async () => {
  guardian = await guardianUnderTest({ script: say('no verdict'), config: { limits: { breakerFaults: 2 } } });
  for (let at = 0; at < 4; at += 1) expect(await guardian.review()).toMatchObject({ category: 'malformed' });
});

test('a session cannot spend more requests than its budget, and others still can', async () => {
  guardian = await guardianUnderTest({ script: say(APPROVE), config: { limits: { requestsPerSession: 2 } } });
  const asked = ['ses_a', 'ses_a', 'ses_a', 'ses_b'].map((sessionId, at) =>
    guardian.review({ sessionId, callId: `call_${at}` }),
  );
  const replies = await Promise.all(asked);
  expect(replies.map((reply) => reply.category)).toEqual(['reviewed', 'reviewed', 'unavailable', 'reviewed']);
  expect(replies[2]?.reason).toContain('the session has spent its 2 review requests');
});

test('retries count against the budget of the hour', async () => {
  guardian = await guardianUnderTest({ script: fault, config: { limits: { requestsPerHour: 2 } } });
  const reply = await guardian.review();
  expect(reply.reason).toContain('the 2 review requests of this hour are spent');
  expect(guardian.endpoint.asked).toHaveLength(2);
});

test('repeated denials pause the session and call a person, until one looked', async () => {
  let text = DENY;
  const script: Script = (asked, response, turn) => say(text)(asked, response, turn);
  guardian = await guardianUnderTest({ script, config: { limits: { denialsInRow: 2 } } });
  expect(await guardian.review()).toMatchObject({ category: 'reviewed', callHuman: false });
  expect(await guardian.review()).toMatchObject({ category: 'reviewed', callHuman: true });
  text = APPROVE;
  expect(await guardian.review()).toMatchObject({ approve: false, category: 'unavailable', callHuman: true });
  expect(guardian.endpoint.asked).toHaveLength(2);
  expect(await guardian.review({ sessionId: 'ses_b' })).toMatchObject({ approve: true });
  expect(await resume('ses_b')).toEqual({ resumed: false });
  expect(await resume('ses_a')).toEqual({ resumed: true });
  expect(await guardian.review()).toMatchObject({ approve: true, callHuman: false });
});

test('an approval between denials starts the count again, a failed review does not count', async () => {
  const texts = [DENY, APPROVE, DENY, 'no verdict', DENY];
  const script: Script = (asked, response, turn) => say(texts[turn - 1] ?? '')(asked, response, turn);
  guardian = await guardianUnderTest({ script, config: { limits: { denialsInRow: 2 } } });
  const seen = [];
  for (const _text of texts) {
    const { approve, category, callHuman } = await guardian.review();
    seen.push([approve, category, callHuman]);
  }
  expect(seen).toEqual([
    [false, 'reviewed', false],
    [true, 'reviewed', false],
    [false, 'reviewed', false],
    [false, 'malformed', false],
    [false, 'reviewed', true],
  ]);
});

test('with the identity judge both questions must be approved', async () => {
  const script: Script = (asked, response, turn) =>
    say(asked.system.includes('enrolled with') ? DENY : APPROVE)(asked, response, turn);
  guardian = await guardianUnderTest({ script });
  expect(await guardian.review()).toMatchObject({ approve: true });
  expect(await guardian.review({ identityJudge: true })).toMatchObject({
    approve: false,
    category: 'reviewed',
    reason: 'identity: removes data',
    inputTokens: 22n,
  });
  expect(guardian.endpoint.asked).toHaveLength(3);
});

test('the identity judge of the configuration cannot be switched off, and its failure is no approval', async () => {
  const script: Script = (asked, response, turn) =>
    say(asked.system.includes('enrolled with') ? `${APPROVE}.` : APPROVE)(asked, response, turn);
  guardian = await guardianUnderTest({ script, config: { identityJudge: true } });
  expect(await guardian.review({ identityJudge: false })).toMatchObject({ approve: false, category: 'malformed' });
});

test('arguments that are too long to be shown are not reviewed, and a person is called', async () => {
  guardian = await guardianUnderTest({ script: say(APPROVE) });
  const detail = JSON.stringify({ command: `echo ${'a'.repeat(60_000)}; rm -rf data` });
  expect(await guardian.review({ detail })).toMatchObject({
    approve: false,
    category: 'unavailable',
    callHuman: true,
  });
  expect(guardian.endpoint.asked).toEqual([]);
});

test('a call that is reviewed already is not reviewed again, and counts as one denial', async () => {
  const answers = Promise.withResolvers<void>();
  const script: Script = async (asked, response, turn) => {
    await answers.promise;
    say(DENY)(asked, response, turn);
  };
  guardian = await guardianUnderTest({ script, config: { limits: { denialsInRow: 2 } } });
  const twice = [guardian.review({ callId: 'call_b' }), guardian.review({ callId: 'call_b' })];
  const other = guardian.review({ callId: 'call_c', sessionId: 'ses_c' });
  await expect.poll(() => guardian.endpoint.asked.length, { timeout: 10_000 }).toBe(2);
  answers.resolve();
  const replies = await Promise.all([...twice, other]);
  expect(replies.map(({ category, callHuman }) => [category, callHuman])).toEqual(
    Array.from({ length: 3 }, () => ['reviewed', false]),
  );
  expect(guardian.endpoint.asked).toHaveLength(2);
});

test('a caller that leaves takes the review from nobody else', async () => {
  const answers = Promise.withResolvers<void>();
  const script: Script = async (asked, response, turn) => {
    await answers.promise;
    say(APPROVE)(asked, response, turn);
  };
  guardian = await guardianUnderTest({ script });
  const leaving = guardian.client.review(ReviewRequest.fromPartial(ORDINARY), () => undefined);
  await expect.poll(() => guardian.endpoint.asked.length, { timeout: 10_000 }).toBe(1);
  const staying = guardian.review();
  leaving.cancel();
  answers.resolve();
  expect(await staying).toMatchObject({ approve: true });
});

test('200 reviews at once keep to the limit and leave other calls of the service alone', async () => {
  const script: Script = (asked, response, turn) => void setTimeout(() => say(APPROVE)(asked, response, turn), 20);
  guardian = await guardianUnderTest({ script, config: { deadlineMs: 20_000, limits: { concurrent: 8 } } });
  const reviews = Promise.all(
    Array.from({ length: 200 }, (_, at) => guardian.review({ callId: `call_${at}`, sessionId: `ses_${at}` })),
  );
  const checked: boolean[] = [];
  for (let at = 0; at < 5; at += 1) checked.push(await isServing(guardian.address));
  expect(guardian.endpoint.asked.length).toBeLessThan(200);
  expect(checked).toEqual([true, true, true, true, true]);
  expect((await reviews).every((reply) => reply.approve)).toBe(true);
  expect(guardian.endpoint.mostAtOnce()).toBe(8);
});

test('reviews that find no place in time or in the line are not approvals', async () => {
  const config = { deadlineMs: HANG_MS, limits: { concurrent: 1, waiting: 1 } };
  guardian = await guardianUnderTest({ script: () => undefined, config });
  const replies = await Promise.all([1, 2, 3].map((at) => guardian.review({ callId: `call_${at}` })));
  expect(replies.map((reply) => [reply.approve, reply.category]).sort()).toEqual([
    [false, 'timed_out'],
    [false, 'timed_out'],
    [false, 'unavailable'],
  ]);
});

test('a caller that leaves ends the request and frees its place', async () => {
  let first = true;
  const closed = Promise.withResolvers<void>();
  const script: Script = (asked, response, turn) => {
    if (!first) return say(APPROVE)(asked, response, turn);
    first = false;
    response.on('close', () => closed.resolve());
  };
  guardian = await guardianUnderTest({ script, config: { limits: { concurrent: 1, breakerFaults: 1 } } });
  const call = guardian.client.review(ReviewRequest.fromPartial(ORDINARY), () => undefined);
  await expect.poll(() => guardian.endpoint.asked.length).toBe(1);
  call.cancel();
  await closed.promise;
  expect(await guardian.review()).toMatchObject({ approve: true });
});

test('the deadline is at most 30 s and the tries at most 3, and unknown settings are refused', () => {
  const listen = { host: '127.0.0.1', port: 0 };
  const accepted = (config: object) => guardianConfigSchema.safeParse({ listen, ...config }).success;
  expect(guardianConfigSchema.parse({ listen })).toMatchObject({ deadlineMs: 30_000, tries: 3, identityJudge: false });
  expect([{ deadlineMs: 30_001 }, { tries: 4 }, { failOpen: true }].map(accepted)).toEqual([false, false, false]);
  const provider = { name: 'a', kind: 'openai', baseUrl: 'http://127.0.0.1', models: ['m'], completion: 'once' };
  expect(
    [[provider], [provider, provider], [{ ...provider, apiKey: 'k' }], [{ ...provider, baseUrl: 'file:///k' }]].map(
      (providers) => accepted({ providers }),
    ),
  ).toEqual([true, false, false, false]);
});
