import { type ReviewReply, ReviewRequest } from '@countersign/protocol';
import { Metadata } from '@grpc/grpc-js';
import type { Gateway } from '../context.ts';
import type { Session } from '../record/sessions.ts';
import type { Evaluation } from './evaluate.ts';
import type { ParsedCall } from './parse-call.ts';

/** Longer than the Guardian's own deadline, so that its category is not lost. */
const DEADLINE_MS = 35_000;
const CHECK_DEADLINE_MS = 2_000;

/** Most characters of an inspection that are sent; the Guardian shows fewer and says so. */
const MAX_INSPECTION = 64_000;

/** `failed`: nobody judged the call, so this is no policy denial and says nothing about the call's risk. */
export type Verdict = {
  readonly approve: boolean;
  readonly name: string;
  readonly reason: string;
  readonly category: 'reviewed' | 'timed_out' | 'unavailable' | 'malformed' | 'misconfigured';
  readonly failed: boolean;
  /** True when a person should look: repeated denials, or a call the model cannot be shown. */
  readonly callHuman: boolean;
  readonly provider: string;
  readonly model: string;
  readonly promptVersion: string;
  /** Provider, model and prompt version in one; empty when no model was named. */
  readonly version: string;
  /** For the record: how long it took, how many tokens, digests of what was sent and what came. */
  readonly facts: object;
};

const FAILURES = ['timed_out', 'unavailable', 'malformed', 'misconfigured'] as const;

const inspectionOf = ({ view }: Evaluation): string =>
  [
    `profile: ${view.profile}`,
    ...view.reasons.map((reason) => `policy: ${reason}`),
    ...view.preconditions.map(({ path, real_path }) => `path: ${path} -> ${real_path || '(does not exist)'}`),
    ...(view.diff === undefined ? [] : ['difference:', view.diff]),
  ]
    .join('\n')
    .slice(0, MAX_INSPECTION);

/** What a review is about. */
type Reviewed = { readonly session: Session; readonly call: ParsedCall; readonly evaluation: Evaluation };

async function requestOf(gateway: Gateway, { session, call, evaluation }: Reviewed, advisory: boolean) {
  const member = await gateway.members.find('agent', session.agent);
  return ReviewRequest.fromPartial({
    callId: call.submit.callId,
    sessionId: session.id,
    provider: session.model.provider,
    model: session.model.name,
    requestText: session.request_text,
    requestFromPerson: session.request_by !== undefined,
    agentRole: `agent ${session.agent} of ${session.principal}`,
    agentTask: member?.task ?? '',
    project: session.project,
    tool: call.tool,
    action: evaluation.action,
    detail: JSON.stringify(call.args),
    resource: evaluation.view.realPath ?? '',
    scope: session.project,
    inspection: inspectionOf(evaluation),
    sessionChain: evaluation.view.chain,
    advisory,
    identityJudge: gateway.policy.current.identityJudge,
  });
}

/** A review that nobody made. */
export const unanswered = (reason: string): Verdict => ({
  approve: false,
  name: 'guardian',
  reason: `guardian: unavailable: ${reason}; the call was not judged`,
  category: 'unavailable',
  failed: true,
  callHuman: false,
  ...{ provider: '', model: '', promptVersion: '', version: '' },
  facts: {},
});

function verdictOf(reply: ReviewReply): Verdict {
  const failure = FAILURES.find((category) => category === reply.category);
  const reviewed = reply.category === 'reviewed' && reply.reason.trim() !== '';
  return {
    approve: reply.approve === true && reviewed,
    name: reply.model === '' ? 'guardian' : `${reply.provider}/${reply.model}`,
    reason: `guardian: ${reply.category || 'no category'}: ${reply.reason || 'no reason'}`,
    category: reviewed ? 'reviewed' : (failure ?? 'malformed'),
    failed: !reviewed,
    callHuman: reply.callHuman,
    provider: reply.provider,
    model: reply.model,
    promptVersion: reply.promptVersion,
    version: reply.model === '' ? '' : `${reply.provider}/${reply.model}@${reply.promptVersion}`,
    facts: {
      prompt_version: reply.promptVersion,
      latency_ms: Number(reply.latencyMs),
      input_tokens: Number(reply.inputTokens),
      output_tokens: Number(reply.outputTokens),
      prompt_digest: reply.promptDigest,
      response_digest: reply.responseDigest,
    },
  };
}

/** The call's trace goes on in the Guardian's log. */
function traced(traceparent: string): Metadata {
  const metadata = new Metadata();
  if (traceparent !== '') metadata.set('traceparent', traceparent);
  return metadata;
}

async function ask(gateway: Gateway, about: Reviewed, advisory: boolean): Promise<Verdict> {
  const request = await requestOf(gateway, about, advisory);
  const reply = await new Promise<ReviewReply | undefined>((resolve) => {
    gateway.guardian.review(
      request,
      traced(about.call.submit.traceparent),
      { deadline: Date.now() + DEADLINE_MS },
      (error, answer) => resolve(error ? undefined : answer),
    );
  });
  return reply ? verdictOf(reply) : unanswered('it did not answer');
}

/** Asks the Guardian. SECURITY: anything but an approval of category `reviewed` with a reason is a denial. */
export const reviewCall = (
  gateway: Gateway,
  session: Session,
  call: ParsedCall,
  evaluation: Evaluation,
): Promise<Verdict> => ask(gateway, { session, call, evaluation }, false);

/** What the Guardian would say of a call that a person decides. It decides nothing and pauses nothing. */
export const opinionOn = (
  gateway: Gateway,
  session: Session,
  call: ParsedCall,
  evaluation: Evaluation,
): Promise<Verdict> => ask(gateway, { session, call, evaluation }, true);

/** Why a session of this model could have no call reviewed, for its opening; undefined when it can. Asks no model. */
export async function reviewProblem(gateway: Gateway, model: Session['model']): Promise<string | undefined> {
  return new Promise((resolve) => {
    gateway.guardian.checkModel(
      { provider: model.provider, model: model.name },
      new Metadata(),
      { deadline: Date.now() + CHECK_DEADLINE_MS },
      (error, answer) => {
        if (error) resolve('guardian does not answer, so calls that need a review are denied');
        else resolve(answer.usable ? undefined : answer.reason || 'guardian gives no reason');
      },
    );
  });
}

/** Lets reviews of a session go on after a person looked at one of its calls. A lost one costs another question to a person. */
export function resumeReviews(gateway: Gateway, sessionId: string): void {
  gateway.guardian.resume({ sessionId }, new Metadata(), { deadline: Date.now() + CHECK_DEADLINE_MS }, () => undefined);
}
