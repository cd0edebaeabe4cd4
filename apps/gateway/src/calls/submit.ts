import { type CallState, FaultError } from '@countersign/kernel';
import { type AppendReply, type CallDraft, type CallSubmit, ERROR_CODES } from '@countersign/protocol';
import { traceId } from '@countersign/service-kit';
import type { StepAside } from '../broker/pull-loop.ts';
import type { Gateway } from '../context.ts';
import { refreshFreeze } from '../freeze/change-freeze.ts';
import { useOfGrants } from '../grants/use-grants.ts';
import { maskLine, maskText } from '../masking.ts';
import { refreshPolicy } from '../policy/publish-policy.ts';
import { callEntry, json } from '../record/entries.ts';
import type { Member, Sender } from '../record/members.ts';
import type { SessionChain } from '../record/sessions.ts';
import { beyondAncestors } from '../sessions/beyond-ancestors.ts';
import { pauseTurn } from '../sessions/paused-turn.ts';
import { outsideRoots } from '../sessions/rooted.ts';
import { announce, announceRecord, tellAgent } from './announce.ts';
import { orderOf, publishOrder } from './dispatch.ts';
import { type Evaluation, evaluate } from './evaluate.ts';
import { handOver, handOverOf, runsAtAgent } from './hand-over.ts';
import { advise, type Judgement, type Outcome, outcomeOf, pausesTurn } from './outcome-of.ts';
import { type CallRefusal, type ParsedCall, parseCall } from './parse-call.ts';
import { replayDetail } from './replay-detail.ts';
import { standingOf } from './standing.ts';

/** Waiting time of a call without a deadline of its own, and the longest one; architecture.md. */
const DEFAULT_WAIT_MS = 3_600_000;
const MAX_WAIT_MS = 7 * 24 * 3_600_000;

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
    executor: call.submit.executor,
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

/** A judged call of a session, and the documents that it stands on. */
type Judged = Judgement & { readonly outcome: Outcome; readonly basis: Evaluation['basis'] };

async function record(
  gateway: Gateway,
  member: Sender,
  { found, call, evaluation, outcome, basis }: Judged,
): Promise<AppendReply> {
  const nowMs = gateway.now();
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
      rules: [...evaluation.decision.decidingRules, ...evaluation.savedRules],
      ...(evaluation.view.files ? { layers: evaluation.view.files } : {}),
      policy_digest: gateway.policy.digest,
      reason,
      ...(outcome.reviewed === undefined ? {} : { review: outcome.reviewed }),
      ...(outcome.verdict === undefined ? {} : { guardian: outcome.verdict.facts }),
    },
  };
  const base = {
    call: draftOf(member, found, call, evaluation, nowMs),
    view: json({ ...evaluation.view, ...(member.key === undefined ? {} : { key: member.key }) }),
    freezeEpoch: gateway.freeze.epoch,
    sessionVersion: found.version,
    sessionId: found.session.id,
    expected: [...basis],
    reason,
  };
  const received = entry('call.received', 'received', {
    ...context,
    ...traceOf(call.submit),
    detail: replayDetail(call.args),
  });
  if (outcome.effect === 'ask') {
    const detail = { reasons: [reason], queue: base.call.queue, rules: evaluation.decision.decidingRules };
    const reply = await gateway.audit.append({
      ...base,
      entries: [received, entry('approval.requested', 'pending', { ...context, detail })],
    });
    if (!reply.refusal) advise(gateway, { found, call, evaluation }, outcome.verdict);
    return reply;
  }
  const names = { decidedBy: outcome.decidedBy, decidedByName: outcome.name };
  if (outcome.effect === 'deny') {
    const reply = await gateway.audit.append({
      ...base,
      ...names,
      entries: [
        received,
        entry('decision', 'denied', decided),
        entry('call.closed', '', { detail: { state: 'denied' } }),
      ],
    });
    if (!reply.refusal && outcome.verdict && pausesTurn(outcome.verdict))
      await pauseTurn(gateway, { callId, session: found.session, queue: base.call.queue ?? '' });
    return reply;
  }
  const { order, entry: sent } = runsAtAgent(call.submit)
    ? handOverOf(gateway, callId, evaluation.view)
    : orderOf(gateway, callId, found.session.host, evaluation.view);
  const used = useOfGrants(gateway, callId, evaluation.decision, nowMs);
  return gateway.audit.append({
    ...base,
    ...names,
    ...order,
    ...used?.facts,
    expected: [...basis, ...(used?.facts.expected ?? [])],
    entries: [received, ...(used ? [used.entry] : []), entry('decision', 'approved', decided), sent],
  });
}

/** The session of a call with its chain; undefined unless it is open, like all its ancestors, and this agent's own. */
async function findSession(gateway: Gateway, member: Member, sessionId: string): Promise<SessionChain | undefined> {
  const found = await gateway.sessions.chain(sessionId);
  return found?.session.agent === member.id && found.bounded.state === 'open' ? found : undefined;
}

/**
 * Takes one submitted call to its first lasting state: rejected, denied, waiting or dispatched. A call that is in the
 * record already is answered from it. `aside` carries the wait for a model. Rejects only when the record cannot be reached; the message then comes again.
 */
export async function submitCall(
  gateway: Gateway,
  member: Sender,
  submit: CallSubmit,
  aside: StepAside = (wait) => wait(),
): Promise<void> {
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
    if (runsAtAgent(known) && known.state === 'approved') return handOver(gateway, known);
    await announce(gateway, submit.callId);
    return;
  }
  for (let tries = 1; ; tries += 1) {
    const reply = await decideCall(gateway, member, submit, aside);
    if (!reply) return;
    if (!reply.refusal) return follow(gateway, submit, reply);
    const { code } = reply.refusal;
    gateway.logger.info({ code, call: submit.callId }, 'decision was not recorded; looking again');
    // Another gateway took the same message, or a resend of it.
    if (await gateway.audit.getCall(member.id, submit.callId)) return void (await announce(gateway, submit.callId));
    if (code === ERROR_CODES.auditStalePolicy) {
      await refreshPolicy(gateway);
      await gateway.layers.refresh();
      await gateway.members.refresh();
    }
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

/** Judges a new call and records what came of it; undefined when it was rejected, or its key revoked meanwhile. */
async function decideCall(
  gateway: Gateway,
  member: Sender,
  submit: CallSubmit,
  aside: StepAside,
): Promise<AppendReply | undefined> {
  const refuse = async (refusal: CallRefusal) => {
    await reject(gateway, member, submit, refusal);
    return undefined;
  };
  const standing = standingOf(gateway, member.id, member.key);
  if (!standing) {
    gateway.logger.warn({ agent: member.id, call: submit.callId, code: 'key_revoked' }, 'message is refused');
    return undefined;
  }
  const found = await findSession(gateway, member, submit.sessionId);
  if (!found)
    return refuse({
      code: ERROR_CODES.unknownSession,
      message: `session \`${submit.sessionId.slice(0, 80)}\` is not open for this agent; open one first`,
    });
  const parsed = await parseCall(submit, member, gateway.control);
  if (!parsed.ok) return refuse(parsed.error);
  const beyond =
    outsideRoots(gateway, member, found.session.host, found.session.project) ??
    (await beyondAncestors(gateway, found, parsed.value.tool));
  if (beyond) return refuse(beyond);
  const evaluation = await evaluate(gateway, found, parsed.value);
  if (!evaluation.ok) return refuse(evaluation.error);
  const { decision } = evaluation.value;
  if (decision.effect === 'error')
    return refuse({ code: ERROR_CODES.invalidArguments, message: decision.reasons.join('; ') });
  const judgement = { found: evaluation.value.chain, call: parsed.value, evaluation: evaluation.value };
  const basis = [...evaluation.value.basis, ...standing];
  return record(gateway, member, { ...judgement, basis, outcome: await outcomeOf(gateway, judgement, aside) });
}

/** Sends out what was recorded. */
async function follow(gateway: Gateway, submit: CallSubmit, reply: AppendReply): Promise<void> {
  gateway.atStep('call.recorded');
  if (!reply.call) throw new FaultError('the record answered without the call', { code: ERROR_CODES.internal });
  const stored = { ...reply.call, sealedPayload: submit.sealedPayload };
  if (reply.receipt && !runsAtAgent(stored)) await publishOrder(gateway, stored, reply.receipt);
  await announceRecord(gateway, stored);
  gateway.atStep('call.announced');
}

/** States in which nothing has run and a cancel ends the call at once. */
export const UNSTARTED: readonly CallState[] = ['received', 'pending', 'approved'];
