import {
  GuardianClient,
  type GuardianServer,
  GuardianService,
  ReviewReply,
  type ReviewRequest,
} from '@countersign/protocol';
import { type GrpcServer, grpcClient, serveGrpc } from '@countersign/service-kit';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Gateway } from '../context.ts';
import type { Session } from '../record/sessions.ts';
import type { Evaluation } from './evaluate.ts';
import { reviewCall, reviewProblem } from './guardian.ts';
import { type Judgement, outcomeOf } from './outcome-of.ts';
import type { ParsedCall } from './parse-call.ts';

const session = {
  id: 'ses_a',
  agent: 'builder',
  principal: 'ann',
  project: '/srv/shop',
  model: { provider: 'prov', name: 'model-1' },
  request_text: 'run the tests',
} as Session;

const call = { submit: { callId: 'call_a' }, tool: 'bash', args: { command: 'npm test' } } as unknown as ParsedCall;

const evaluation = {
  action: 'execute',
  view: {
    reasons: ['mode table'],
    profile: 'workspace-write',
    preconditions: [],
    obligations: {},
    chain: ['ses_first', 'ses_a'],
  },
} as unknown as Evaluation;

let reply: Partial<ReviewReply>;
let asked: ReviewRequest[];
let server: GrpcServer;
let client: GuardianClient;

/** What the gateway has in hand for a review: a client and the enrolment of the agent. */
const gateway = () =>
  ({
    guardian: client,
    policy: { current: { identityJudge: true } },
    members: { find: async () => ({ task: 'keeps tests green' }) },
  }) as unknown as Gateway;

beforeEach(async () => {
  asked = [];
  const implementation: GuardianServer = {
    review: (incoming, callback) => {
      asked.push(incoming.request);
      callback(null, ReviewReply.fromPartial(reply));
    },
    checkModel: (_call, callback) => callback(null, { usable: false, reason: 'only streams', provider: '', model: '' }),
    resume: (_call, callback) => callback(null, { resumed: false }),
  };
  server = await serveGrpc({
    services: [{ definition: GuardianService, implementation }],
    host: '127.0.0.1',
    port: 0,
  });
  client = grpcClient(GuardianClient, `127.0.0.1:${server.port}`);
});

afterEach(async () => {
  client.close();
  await server.stop(0);
});

const REVIEWED = {
  ...{ approve: true, category: 'reviewed', reason: 'fine', provider: 'prov', model: 'model-1', promptVersion: 'p1' },
  ...{ latencyMs: 12n, inputTokens: 3n, outputTokens: 4n, promptDigest: 'aa', responseDigest: 'bb' },
};

test('an approval that was reviewed and has a reason is one, under the name of the model', async () => {
  reply = REVIEWED;
  expect(await reviewCall(gateway(), session, call, evaluation)).toEqual({
    approve: true,
    name: 'prov/model-1',
    reason: 'guardian: reviewed: fine',
    category: 'reviewed',
    failed: false,
    callHuman: false,
    provider: 'prov',
    model: 'model-1',
    promptVersion: 'p1',
    version: 'prov/model-1@p1',
    facts: {
      prompt_version: 'p1',
      latency_ms: 12,
      input_tokens: 3,
      output_tokens: 4,
      prompt_digest: 'aa',
      response_digest: 'bb',
    },
  });
  expect(asked[0]).toMatchObject({
    agentRole: 'agent builder of ann',
    agentTask: 'keeps tests green',
    requestText: 'run the tests',
    requestFromPerson: false,
    detail: '{"command":"npm test"}',
    identityJudge: true,
    inspection: 'profile: workspace-write\npolicy: mode table',
    sessionChain: ['ses_first', 'ses_a'],
    advisory: false,
  });
});

test.each([
  ['timed_out', 'timed_out'],
  ['unavailable', 'unavailable'],
  ['malformed', 'malformed'],
  ['misconfigured', 'misconfigured'],
  ['', 'malformed'],
  ['Reviewed', 'malformed'],
  ['approved', 'malformed'],
])('an approval of category `%s` is a failed review of category %s', async (category, seen) => {
  reply = { ...REVIEWED, category };
  expect(await reviewCall(gateway(), session, call, evaluation)).toMatchObject({
    approve: false,
    category: seen,
    failed: true,
  });
});

test.each(['', '  \n'])('an approval with the reason `%s` is a failed review', async (reason) => {
  reply = { ...REVIEWED, reason };
  expect(await reviewCall(gateway(), session, call, evaluation)).toMatchObject({ approve: false, failed: true });
});

test('a denial is reviewed and no failure, and the call for a person is passed on', async () => {
  reply = { ...REVIEWED, approve: false, callHuman: true };
  expect(await reviewCall(gateway(), session, call, evaluation)).toMatchObject({
    approve: false,
    category: 'reviewed',
    failed: false,
    callHuman: true,
  });
});

test('a Guardian that is not there is an unavailable review and says so for a session', async () => {
  await server.stop(0);
  expect(await reviewCall(gateway(), session, call, evaluation)).toMatchObject({
    approve: false,
    category: 'unavailable',
    failed: true,
  });
  expect(await reviewProblem(gateway(), session.model)).toBe(
    'guardian does not answer, so calls that need a review are denied',
  );
});

test('the reason why a model cannot review reaches whoever opens the session', async () => {
  expect(await reviewProblem(gateway(), session.model)).toBe('only streams');
});

test.each([[[]], [['unreadable']], [['possible']], [['profile']], [['rule']], [['table', 'possible']]])(
  "an ask of kinds %j is a person's, and the model is not asked",
  async (askKinds) => {
    reply = REVIEWED;
    const decision = { effect: 'ask', askKinds, reasons: ['why'] };
    const found = { bounded: { ...session, approval_mode: 'auto' } };
    const judgement = { found, call, evaluation: { ...evaluation, decision } } as unknown as Judgement;
    expect(await outcomeOf(gateway(), judgement, (wait) => wait())).toMatchObject({ effect: 'ask', decidedBy: '' });
    expect(asked).toEqual([]);
  },
);
