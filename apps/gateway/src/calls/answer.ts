import { err, ok, type Result } from '@countersign/kernel';
import {
  type AppendReply,
  assertionsDigest,
  type CallRecord,
  ERROR_CODES,
  type ErrorCode,
  type PasskeyAssertion,
} from '@countersign/protocol';
import { hasRole, type Principal } from '../access/principal.ts';
import type { Gateway } from '../context.ts';
import { refreshFreeze } from '../freeze/change-freeze.ts';
import type { Ruling } from '../governance/governance.ts';
import { grantBounds, grantCreated, newGrant } from '../grants/give-grant.ts';
import type { LiveGrant, Narrowing } from '../grants/grant.ts';
import { alwaysRule, saving } from '../layers/save-rule.ts';
import type { StoredRule } from '../layers/stored-rule.ts';
import { maskText } from '../masking.ts';
import { refreshPolicy } from '../policy/publish-policy.ts';
import { callEntry, json } from '../record/entries.ts';
import { endPause } from '../sessions/paused-turn.ts';
import { announce } from './announce.ts';
import { orderOf, publishRecorded } from './dispatch.ts';
import { compareWithHuman } from './guardian-opinions.ts';
import { runsAtAgent } from './hand-over.ts';
import { narrowView } from './narrow-view.ts';
import { isOvertaken, recordPartial, rulingDocuments, signatureOf } from './record-partial.ts';
import { redecideCall } from './redecide.ts';
import { redecideChanged } from './redecide-changed.ts';
import { standingOfCall } from './standing.ts';
import { readView, type View } from './view.ts';

export type Answer = {
  readonly answer: 'approve' | 'deny';
  readonly reason: string;
  readonly viewDigest: string;
  /** How long an approval holds; `session` gives a grant, `always` saves a rule. */
  readonly remember?: 'once' | 'session' | 'always' | undefined;
  readonly narrow?: Narrowing | undefined;
  /** Shorter life of the grant, milliseconds. */
  readonly grantMs?: number | undefined;
  /** Approves alone in an emergency; somebody else reviews it. */
  readonly breakGlass?: boolean;
  /** The answer of the person's passkey, in queues that ask for one. */
  readonly assertion?: PasskeyAssertion | undefined;
};
export type AnswerRefusal = {
  readonly code: ErrorCode;
  readonly message: string;
  readonly winner?: string;
  readonly state?: string;
};

/** What an approval leads to, beside the decision. */
type Terms = {
  readonly view: View;
  readonly narrowed: boolean;
  readonly grant: LiveGrant | undefined;
  readonly rule: StoredRule | undefined;
};

/** What one answer leads to: terms unless it denies. */
type Verdict = {
  readonly terms: Terms | undefined;
  readonly ruling: Ruling;
  /** Documents on which it stands that the call may start. */
  readonly standing: NonNullable<ReturnType<typeof standingOfCall>>;
};

function lost(record: CallRecord): Result<never, AnswerRefusal> {
  const winner = record.decidedByName === '' ? record.state : record.decidedByName;
  const message = `call is \`${record.state}\`${record.decidedByName === '' ? '' : `, decided by ${winner}`}`;
  return err({ code: ERROR_CODES.alreadyDecided, message, winner, state: record.state });
}

function termsOf(gateway: Gateway, record: CallRecord, by: Principal, answer: Answer): Result<Terms, AnswerRefusal> {
  const refuse = (message: string) => err({ code: ERROR_CODES.notOffered, message });
  const shown = readView(record.view);
  if (!shown) return refuse('the call has no view; read it again');
  if (answer.narrow && runsAtAgent(record))
    return refuse('the agent carries this call out itself; nothing would keep it inside a narrower reach');
  const view = answer.narrow ? narrowView(shown, answer.narrow) : ok(shown);
  if (!view.ok) return refuse(view.error);
  const { narrow, grantMs } = answer;
  const grant =
    answer.remember === 'session' ? newGrant(gateway, record, shown, { name: by.name, narrow, grantMs }) : undefined;
  if (answer.remember === 'session' && !grant)
    return refuse('this call can only be approved once; nothing that would be remembered could be kept');
  const rule = answer.remember === 'always' ? alwaysRule(gateway, record, shown, by.name) : undefined;
  if (answer.remember === 'always') {
    if (!rule || answer.narrow) return refuse('no rule could allow exactly this call; approve it once');
    if (!hasRole(by, ['operator', 'admin']) || !by.scopes.includes('operate'))
      return err({ code: ERROR_CODES.forbidden, message: 'a rule is saved by an operator; approve it once' });
    const full = gateway.layers.full();
    if (full) return err(full);
  }
  return ok({ view: view.value, narrowed: answer.narrow !== undefined, grant, rule });
}

async function record(
  gateway: Gateway,
  call: CallRecord,
  by: Principal,
  answer: Answer,
  { terms, ruling, standing }: Verdict,
): Promise<AppendReply> {
  const { callId } = call;
  const nowMs = gateway.now();
  const reason = maskText(answer.reason);
  const shown = readView(call.view);
  const approver = { subject: by.name, method: by.method, shown: answer.viewDigest };
  const decision = {
    effect: terms ? 'allow' : 'deny',
    decided_by: 'human',
    policy_digest: gateway.policy.digest,
    ...(shown?.files ? { layers: shown.files } : {}),
    reason,
  };
  const entry = (type: string, toState = '', body: object = {}) => callEntry({ callId, type, toState, nowMs, body });
  const detail = {
    answer: answer.answer,
    ...ruling.detail,
    ...(terms?.narrowed ? { narrowed: answer.narrow } : {}),
    ...(terms?.grant ? { grant: terms.grant.id } : {}),
    ...(terms?.rule ? { rule: terms.rule.id } : {}),
  };
  const saved = terms?.rule && gateway.layers.draft(saving(terms.rule));
  const answered = callEntry({
    ...{ callId, type: 'approval.answered', attempt: ruling.attempt, nowMs },
    body: { approver: { ...approver, ...signatureOf(ruling) }, detail },
  });
  const decided = entry('decision', terms ? 'approved' : 'denied', { decision, approver });
  const base = {
    documents: [...rulingDocuments(ruling), ...(saved?.documents ?? [])],
    assertionsDigest: assertionsDigest(ruling.assertions),
    decidedBy: 'human',
    decidedByName: by.name,
    expectedViewDigest: Buffer.from(answer.viewDigest, 'hex'),
    freezeEpoch: gateway.freeze.epoch,
    expected: [gateway.policy.basis(), gateway.layers.basis(), ...standing],
    reason,
  };
  if (!terms) {
    const closed = entry('call.closed', '', { detail: { state: 'denied' } });
    return gateway.audit.append({ ...base, entries: [answered, decided, closed] });
  }
  // An agent that carries the call out itself comes for it; freeze and policy are judged again then.
  const start = runsAtAgent(call) ? undefined : orderOf(gateway, callId, call.host, terms.view);
  return gateway.audit.append({
    ...base,
    ...start?.order,
    entries: [
      answered,
      decided,
      ...(start ? [start.entry] : []),
      ...(terms.grant ? [grantCreated(terms.grant, nowMs)] : []),
      ...(saved?.entries ?? []),
    ],
    ...(terms.narrowed ? { view: json(terms.view) } : {}),
    ...(terms.grant
      ? {
          expected: [...base.expected, { kind: 'grants', key: 'epoch', version: BigInt(terms.grant.epoch) }],
          grantBounds: grantBounds(terms.grant),
        }
      : {}),
  });
}

async function refusalOf(gateway: Gateway, callId: string, reply: AppendReply): Promise<Result<never, AnswerRefusal>> {
  if (reply.refusal?.code === ERROR_CODES.auditStaleView)
    return err({ code: ERROR_CODES.staleView, message: 'the call changed since you read it; read it again' });
  if (reply.refusal?.code === ERROR_CODES.auditFrozen)
    return err({ code: ERROR_CODES.frozen, message: `${reply.refusal.message}; the call goes on waiting` });
  const now = await gateway.audit.getCall('', callId);
  return now && now.state !== 'pending'
    ? lost(now)
    : err({ code: ERROR_CODES.auditUnavailable, message: reply.refusal?.message ?? 'the answer was not recorded' });
}

/** Brings freeze or policy up to date when the record said that they moved on; true when the answer may be tried again. */
async function caughtUp(gateway: Gateway, call: CallRecord, { refusal }: AppendReply): Promise<boolean> {
  if (refusal?.code === ERROR_CODES.auditStaleFreeze) await refreshFreeze(gateway);
  else if (refusal?.code === ERROR_CODES.auditStalePolicy) {
    await refreshPolicy(gateway);
    await gateway.layers.refresh();
    await gateway.members.refresh();
    return !standingOfCall(gateway, call) || !(await redecideCall(gateway, call));
  } else return false;
  return true;
}

/** Answers of others that may come in between before one is given up. */
const MAX_TRIES = 8;

/** Another answer, a freeze or a policy came in between; this one is judged anew. */
const OVERTAKEN = Symbol('overtaken');

/** Tells every gateway of a rule that the record has. */
async function ruleIsSaved(gateway: Gateway): Promise<void> {
  await gateway.layers
    .refresh()
    .catch((error: unknown) => gateway.logger.warn({ err: error }, 'a saved rule is not in force here yet'));
  gateway.broker.bus.tell('layers');
}

type Answered = { readonly state: string; readonly grant?: string; readonly rule?: string };

async function answerOnce(
  gateway: Gateway,
  callId: string,
  by: Principal,
  answer: Answer,
): Promise<Result<Answered, AnswerRefusal> | typeof OVERTAKEN> {
  const call = await gateway.audit.getCall('', callId);
  if (!call) return err({ code: ERROR_CODES.notFound, message: 'no such call' });
  if (call.state !== 'pending') return lost(call);
  const approves = answer.answer === 'approve';
  if (approves && (await redecideChanged(gateway, call))) return OVERTAKEN;
  const standing = approves ? standingOfCall(gateway, call) : [];
  if (!standing)
    return err({
      code: ERROR_CODES.notOffered,
      message: "the agent's key that signed this call was revoked; it is cancelled",
    });
  const { reason, breakGlass = false, assertion } = answer;
  const judged = await gateway.governance.judge(call, by, { approves, reason, breakGlass, assertion });
  if (!judged.ok) return judged;
  const ruling = judged.value;
  const alone = ruling.decides && ruling.attempt === '1' && !ruling.exact;
  if (!alone && (answer.narrow !== undefined || (answer.remember ?? 'once') !== 'once'))
    return err({
      code: ERROR_CODES.notOffered,
      message: 'several people or passkeys decide here; each of them approves exactly what is shown, once',
    });
  gateway.atStep('answer.taken');
  const terms = approves ? termsOf(gateway, call, by, answer) : ok(undefined);
  if (!terms.ok) return terms;
  const reply = ruling.decides
    ? await record(gateway, call, by, answer, { terms: terms.value, ruling, standing })
    : await recordPartial(gateway, call, by, answer, ruling);
  if (isOvertaken(reply)) await gateway.layers.refresh();
  if (isOvertaken(reply) || (await caughtUp(gateway, call, reply))) return OVERTAKEN;
  if (reply.refusal) return refusalOf(gateway, callId, reply);
  if (!ruling.decides) return ok({ state: call.state });
  if (breakGlass) gateway.hub.emit('break_glass', { callId, by: by.name, reason: maskText(reason) }, call.queue);
  gateway.atStep('answer.recorded');
  const { grant, rule } = terms.value ?? {};
  if (rule) await ruleIsSaved(gateway);
  if (grant)
    await gateway.grants
      .add(grant)
      .catch((error: unknown) => gateway.logger.warn({ err: error, call: callId }, 'a grant is recorded but not live'));
  if (approves)
    await publishRecorded(gateway, callId).catch((error: unknown) =>
      gateway.logger.warn({ err: error, call: callId }, 'order will be sent by the sweep'),
    );
  const session = await gateway.sessions.find(call.sessionId);
  if (gateway.policy.current.shadow || session?.session.approval_mode === 'auto')
    void compareWithHuman(gateway, callId).catch((error: unknown) =>
      gateway.logger.warn({ err: error, call: callId }, 'an opinion was not compared with the answer'),
    );
  if (session?.session.paused || session?.session.approval_mode === 'auto')
    await endPause(gateway, call.sessionId, { name: by.name, reason: `answered ${callId}` }).catch((error: unknown) =>
      gateway.logger.warn({ err: error, call: callId }, 'a pause did not end'),
    );
  const present = await announce(gateway, callId);
  const resolved = { callId, state: present?.state ?? call.state, decidedByName: by.name };
  gateway.hub.emit('approval_resolved', resolved, call.queue);
  return ok({
    state: approves ? 'approved' : 'denied',
    ...(grant ? { grant: grant.id } : {}),
    ...(rule ? { rule: rule.id } : {}),
  });
}

/**
 * One person's answer to a waiting call. The first valid answer wins in the record; everybody else is told who won. An
 * approval is recorded together with its dispatch, and with the grant it gives, before anything leaves. Nobody decides on a
 * call made for himself.
 */
export async function answerCall(
  gateway: Gateway,
  callId: string,
  by: Principal,
  answer: Answer,
): Promise<Result<Answered, AnswerRefusal>> {
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    const answered = await answerOnce(gateway, callId, by, answer);
    if (answered !== OVERTAKEN) return answered;
  }
  return err({ code: ERROR_CODES.changedMeanwhile, message: 'others answer at the same moment; answer again' });
}
