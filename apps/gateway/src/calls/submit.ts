import { type CallState, FaultError } from '@countersign/kernel';
import type { Decision } from '@countersign/policy';
import { type AppendReply, type CallDraft, type CallSubmit, ERROR_CODES } from '@countersign/protocol';
import { traceId } from '@countersign/service-kit';
import type { Gateway } from '../context.ts';
import { refreshFreeze } from '../freeze/change-freeze.ts';
import { useOfGrants } from '../grants/use-grants.ts';
import { maskLine, maskText } from '../masking.ts';
import { refreshPolicy } from '../policy/publish-policy.ts';
import { callEntry, json } from '../record/entries.ts';
import type { Member } from '../record/members.ts';
import type { SessionChain } from '../record/sessions.ts';
import { beyondAncestors } from '../sessions/beyond-ancestors.ts';
import { announce, announceRecord, tellAgent } from './announce.ts';
import { newOrder, publishOrder } from './dispatch.ts';
import { type Evaluation, evaluate } from './evaluate.ts';
import { opinionOn, reviewCall, type Verdict } from './guardian.ts';
import { mayDecide } from './guardian-figures.ts';
import { keepOpinion } from './guardian-opinions.ts';
import { type CallRefusal, type ParsedCall, parseCall } from './parse-call.ts';
import { replayDetail } from './replay-detail.ts';

/** Waiting time of a call without a deadline of its own, and the longest one; architecture.md. */
const DEFAULT_WAIT_MS = 3_600_000;
const MAX_WAIT_MS = 7 * 24 * 3_600_000;

type Outcome = {
  readonly effect: 'allow' | 'ask' | 'deny';
  readonly decidedBy: string;
  readonly name: string;
  readonly reasons: readonly string[];
  /** Category of the Guardian's review; anything but `reviewed` says nothing about the call's risk. */
  readonly reviewed?: string;
  /** What the Guardian said, whatever came of it. */
  readonly verdict?: Verdict;
};

/** Records an invalid call, so that a resend gets the same answer, and tells the agent why. */
async function reject(gateway: Gateway, member: Member, submit: CallSubmit, refusal: CallRefusal): Promise<void> {
  const nowMs = gateway.now();
  const { callId, sessionId } = submit;
  const reason = maskText(refusal.message);
  const entry = (type: string, toState = '', body: object = {}) => callEntry({ callId, type, toState, nowMs, body });
  const reply = await gateway.audit.append({
    call: {
      callId,
      agent: member.id,
      sessionId,
      tool: maskLine(submit.tool).slice(0, 80),
      principal: member.principal,
      summary: 'invalid call',
    },
    entries: [
      entry('call.received', 'received', { agent: { id: member.id } }),
      entry('call.rejected', 'rejected', { detail: { code: refusal.code, reason } }),
      entry('call.closed', '', { detail: { state: 'rejected' } }),
    ],
    reason,
  });
  if (reply.refusal && reply.refusal.state === '') {
    tellAgent(gateway, member.id, {
      type: 'call.state',
      callId,
      sessionId,
      state: 'rejected',
      reason,
      code: refusal.code,
    });
    return;
  }
  await announce(gateway, callId, refusal.code);
}

/** Trace id of a call for its entries. */
function traceOf({ traceparent }: CallSubmit): { trace?: string } {
  const trace = traceId(traceparent);
  return trace === undefined ? {} : { trace };
}

const draftOf = (
  member: Member,
  found: SessionChain,
  call: ParsedCall,
  evaluation: Evaluation,
  nowMs: number,
): Partial<CallDraft> => {
  const deadline = Number(call.submit.deadlineMs) || nowMs + DEFAULT_WAIT_MS;
  return {
    callId: call.submit.callId,
    agent: member.id,
    sessionId: found.session.id,
    host: found.session.host,
    tool: call.tool,
    action: evaluation.action,
    summary: maskLine(evaluation.summary),
    callDigest: call.digest,
    deadlineMs: BigInt(Math.min(deadline, nowMs + MAX_WAIT_MS)),
    queue: evaluation.decision.review?.queue ?? member.queues[0] ?? 'default',
    principal: member.principal,
    sealedPayload: call.submit.sealedPayload,
    canonicalEnvelope: call.canonical,
    traceparent: call.submit.traceparent,
    ancestorSessionIds: found.ancestors.map(({ session }) => session.id),
  };
};

/** What an allowance is owed to, for the record. */
function allowedBy(decision: Decision): { decidedBy: string; name: string } {
  const [grant] = decision.usedGrants ?? [];
  if (grant !== undefined) return { decidedBy: 'grant', name: grant };
  if (decision.lifts?.includes('eternal')) return { decidedBy: 'eternal', name: 'unattended mode' };
  return { decidedBy: 'mode', name: decision.lifts?.[0] ?? 'mode table' };
}

const ADVISES = 'the model of this session only advises; a person decides';

/** Has the Guardian's opinion kept beside a call that waits for a person. Nobody waits for it. */
function advise(
  gateway: Gateway,
  { bounded }: SessionChain,
  about: { readonly call: ParsedCall; readonly evaluation: Evaluation; readonly verdict: Verdict | undefined },
): void {
  if (about.verdict === undefined && !gateway.policy.current.shadow) return;
  const { callId } = about.call.submit;
  gateway.opinions.offer(
    async () => {
      const verdict = about.verdict ?? (await opinionOn(gateway, bounded, about.call, about.evaluation));
      await keepOpinion(gateway, callId, verdict);
    },
    (error) => gateway.logger.warn({ err: error, call: callId }, 'an opinion was not kept'),
  );
}

/** What comes of the engine's answer in this session's approval mode. */
async function outcomeOf(
  gateway: Gateway,
  found: SessionChain,
  call: ParsedCall,
  evaluation: Evaluation,
): Promise<Outcome> {
  const { decision } = evaluation;
  if (decision.effect === 'deny')
    return {
      effect: 'deny',
      decidedBy: 'rule',
      name: decision.decidingRules[0] ?? 'mode table',
      reasons: decision.reasons,
    };
  if (decision.effect === 'allow') return { effect: 'allow', ...allowedBy(decision), reasons: decision.reasons };
  const byGuardian = decision.review?.reviewer === 'guardian';
  const liftable = decision.askKinds.every(
    (kind) => kind === 'table' || kind === 'risky' || (kind === 'rule' && byGuardian),
  );
  if (found.bounded.approval_mode !== 'auto' || !liftable) {
    return { effect: 'ask', decidedBy: '', name: '', reasons: decision.reasons };
  }
  const verdict = await reviewCall(gateway, found.bounded, call, evaluation);
  if (!verdict.failed && !(await mayDecide(gateway, verdict.version)))
    return { effect: 'ask', decidedBy: '', name: '', reasons: [ADVISES], verdict };
  const asksPerson = verdict.callHuman || (verdict.failed && gateway.policy.current.onFailedReview === 'ask_human');
  if (asksPerson && !verdict.approve)
    return { effect: 'ask', decidedBy: '', name: '', reasons: [verdict.reason], verdict };
  return {
    effect: verdict.approve ? 'allow' : 'deny',
    decidedBy: 'guardian',
    name: verdict.name,
    reasons: [verdict.reason],
    reviewed: verdict.category,
    verdict,
  };
}

async function record(
  gateway: Gateway,
  member: Member,
  found: SessionChain,
  call: ParsedCall,
  evaluation: Evaluation,
): Promise<AppendReply> {
  const nowMs = gateway.now();
  const outcome = await outcomeOf(gateway, found, call, evaluation);
  const { callId } = call.submit;
  const reason = maskText(outcome.reasons.join('; '));
  const entry = (type: string, toState = '', body: object = {}) => callEntry({ callId, type, toState, nowMs, body });
  const tool = {
    name: call.tool,
    action: evaluation.action,
    args_commitment: Buffer.from(call.digest).toString('hex'),
  };
  const context = {
    session: evaluation.view.chain[0] ?? found.session.id,
    ...(found.ancestors.length === 0 ? {} : { execution_session: found.session.id }),
    host: found.session.host,
    agent: { id: member.id, on_behalf_of: member.principal },
    tool,
  };
  const decided = {
    ...context,
    decision: {
      effect: outcome.effect,
      decided_by: outcome.decidedBy,
      rules: evaluation.decision.decidingRules,
      policy_digest: gateway.policy.digest,
      reason,
      ...(outcome.reviewed === undefined ? {} : { review: outcome.reviewed }),
      ...(outcome.verdict === undefined ? {} : { guardian: outcome.verdict.facts }),
    },
  };
  const base = {
    call: draftOf(member, found, call, evaluation, nowMs),
    view: json(evaluation.view),
    freezeEpoch: gateway.freeze.epoch,
    sessionVersion: found.version,
    sessionId: found.session.id,
    expected: [...evaluation.basis],
    reason,
  };
  const received = entry('call.received', 'received', {
    ...context,
    ...traceOf(call.submit),
    detail: replayDetail(call.args),
  });
  if (outcome.effect === 'ask') {
    const reply = await gateway.audit.append({
      ...base,
      entries: [received, entry('approval.requested', 'pending', { ...context, detail: { reasons: [reason] } })],
    });
    if (!reply.refusal) advise(gateway, found, { call, evaluation, verdict: outcome.verdict });
    return reply;
  }
  const names = { decidedBy: outcome.decidedBy, decidedByName: outcome.name };
  if (outcome.effect === 'deny') {
    return gateway.audit.append({
      ...base,
      ...names,
      entries: [
        received,
        entry('decision', 'denied', decided),
        entry('call.closed', '', { detail: { state: 'denied' } }),
      ],
    });
  }
  const order = newOrder(gateway, found.session.host, evaluation.view);
  const dispatched = entry('dispatch.sent', 'dispatched', { host: order.orderHost, detail: { order: order.orderId } });
  const used = useOfGrants(gateway, callId, evaluation.decision, nowMs);
  return gateway.audit.append({
    ...base,
    ...names,
    ...order,
    ...used?.facts,
    expected: [...evaluation.basis, ...(used?.facts.expected ?? [])],
    entries: [received, ...(used ? [used.entry] : []), entry('decision', 'approved', decided), dispatched],
  });
}

/** The session of a call with its chain; undefined unless it is open, like all its ancestors, and this agent's own. */
async function findSession(gateway: Gateway, member: Member, sessionId: string): Promise<SessionChain | undefined> {
  const found = await gateway.sessions.chain(sessionId);
  return found?.session.agent === member.id && found.bounded.state === 'open' ? found : undefined;
}

/**
 * Takes one submitted call to its first lasting state: rejected, denied, waiting or dispatched. A call that is in the
 * record already is answered from it. Rejects only when the record cannot be reached; the message then comes again.
 */
export async function submitCall(gateway: Gateway, member: Member, submit: CallSubmit): Promise<void> {
  gateway.atStep('call.taken');
  const known = await gateway.audit.getCall('', submit.callId);
  if (known && known.agent !== member.id) {
    const { callId, sessionId } = submit;
    const reason = 'call id is taken; choose another';
    return tellAgent(gateway, member.id, {
      type: 'call.state',
      callId,
      sessionId,
      state: 'rejected',
      reason,
      code: ERROR_CODES.auditConflict,
    });
  }
  if (known) {
    await announce(gateway, submit.callId);
    return;
  }
  for (let tries = 1; ; tries += 1) {
    const reply = await decideCall(gateway, member, submit);
    if (!reply) return;
    if (!reply.refusal) return follow(gateway, submit, reply);
    const { code } = reply.refusal;
    gateway.logger.info({ code, call: submit.callId }, 'decision was not recorded; looking again');
    // Another gateway took the same message, or a resend of it.
    if (await gateway.audit.getCall(member.id, submit.callId)) return void (await announce(gateway, submit.callId));
    if (code === ERROR_CODES.auditStalePolicy) await refreshPolicy(gateway);
    if (code === ERROR_CODES.auditStaleFreeze || code === ERROR_CODES.auditFrozen) await refreshFreeze(gateway);
    if (!STALE.includes(code) || tries >= MAX_TRIES)
      throw new FaultError('decision was not recorded', { code, retryable: true });
  }
}

/** What moved on while the call was judged; it is judged anew. */
const STALE: readonly string[] = [
  ERROR_CODES.auditStaleSession,
  ERROR_CODES.auditStaleGrants,
  ERROR_CODES.auditStalePolicy,
  ERROR_CODES.auditStaleFreeze,
  ERROR_CODES.auditFrozen,
];
const MAX_TRIES = 5;

/** Judges a new call and records what came of it; undefined when it was rejected. */
async function decideCall(gateway: Gateway, member: Member, submit: CallSubmit): Promise<AppendReply | undefined> {
  const refuse = async (refusal: CallRefusal) => {
    await reject(gateway, member, submit, refusal);
    return undefined;
  };
  const found = await findSession(gateway, member, submit.sessionId);
  if (!found)
    return refuse({
      code: ERROR_CODES.unknownSession,
      message: `session \`${submit.sessionId.slice(0, 80)}\` is not open for this agent; open one first`,
    });
  const parsed = await parseCall(submit, member, gateway.control);
  if (!parsed.ok) return refuse(parsed.error);
  const beyond = await beyondAncestors(gateway, found, parsed.value.tool);
  if (beyond) return refuse(beyond);
  const evaluation = await evaluate(gateway, found, parsed.value);
  if (!evaluation.ok) return refuse(evaluation.error);
  const { decision } = evaluation.value;
  if (decision.effect === 'error')
    return refuse({ code: ERROR_CODES.invalidArguments, message: decision.reasons.join('; ') });
  return record(gateway, member, found, parsed.value, evaluation.value);
}

/** Sends out what was recorded. */
async function follow(gateway: Gateway, submit: CallSubmit, reply: AppendReply): Promise<void> {
  gateway.atStep('call.recorded');
  if (!reply.call) throw new FaultError('the record answered without the call', { code: ERROR_CODES.internal });
  const stored = { ...reply.call, sealedPayload: submit.sealedPayload };
  if (reply.receipt) await publishOrder(gateway, stored, reply.receipt);
  await announceRecord(gateway, stored);
  gateway.atStep('call.announced');
}

/** States in which nothing has run and a cancel ends the call at once. */
export const UNSTARTED: readonly CallState[] = ['received', 'pending', 'approved'];
