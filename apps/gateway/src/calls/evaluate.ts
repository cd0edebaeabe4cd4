import { err, FaultError, ok, type Result } from '@countersign/kernel';
import { normalisePath } from '@countersign/patterns';
import { actionOf, type Decision, namedPrograms } from '@countersign/policy';
import { changesFile, ERROR_CODES, type Heartbeat, namesPath, runsCommand } from '@countersign/protocol';
import { type InspectError, type Inspection, inspect } from '../broker/inspect.ts';
import type { Gateway } from '../context.ts';
import { grantsOf, underGrants } from '../grants/use-grants.ts';
import { alwaysOffer, folderOf, isUnchanged, rulesOfCall, rulesThatAllow } from '../layers/saved-rules.ts';
import { type Ground, groundOf, groundOn, lay } from '../layers/session-layers.ts';
import type { StoredRule } from '../layers/stored-rule.ts';
import { maskText } from '../masking.ts';
import type { Member } from '../record/members.ts';
import type { Session, SessionChain } from '../record/sessions.ts';
import { tightenedBy } from '../sessions/paused-turn.ts';
import { runsAtAgent } from './hand-over.ts';
import type { CallRefusal, ParsedCall } from './parse-call.ts';
import type { View } from './view.ts';

/** After a start every host that is there has reported within this time; until then its silence means nothing. */
const SETTLE_MS = 15_000;

/** The engine's answer for a call and everything an approver would see. */
export type Evaluation = {
  readonly decision: Decision;
  readonly action: string;
  readonly view: View;
  readonly summary: string;
  /** Documents that the decision stands on. */
  readonly basis: readonly { kind: string; key: string; version: bigint }[];
  /** The session as it was judged. */
  readonly chain: SessionChain;
  /** Saved rules to which an allowance is owed. */
  readonly savedRules: readonly string[];
};

/** At most this many covers go into one grant. */
const MAX_COVERS = 16;

function offersOf({ grantOffer }: Decision, always: Decision['ruleOffer']): View['offers'] {
  return {
    ...(grantOffer && grantOffer.length <= MAX_COVERS ? { session: grantOffer.map((grant) => ({ ...grant })) } : {}),
    ...(always ? { always: always.map((rule) => ({ ...rule })) } : {}),
  };
}

type Boundary = Pick<Gateway, 'hardened' | 'blockPrivateNetwork'>;
type Viewed = {
  readonly call: ParsedCall;
  readonly decision: Decision;
  readonly inspection?: Inspection | undefined;
  readonly timeoutMs: number;
  readonly always: Decision['ruleOffer'];
};

function viewOf(session: Session, { call, decision, inspection, timeoutMs, always }: Viewed, boundary: Boundary): View {
  const { backend, backendFallback = false } = decision.obligations;
  const first = namesPath(call.tool) ? inspection?.paths[0] : undefined;
  return {
    reasons: decision.reasons.map(maskText),
    project: session.project,
    ...(runsAtAgent(call.submit) ? { executor: 'agent', profile: 'none' } : { profile: decision.obligations.profile }),
    ...(first ? { realPath: first.realPath } : {}),
    ...(inspection?.diff ? { diff: inspection.diff.split('\n').map(maskText).join('\n') } : {}),
    obligations: {
      deny_read: [...decision.obligations.denyRead],
      deny_write: [...decision.obligations.denyWrite],
      timeout_ms: timeoutMs,
      hosts: [...decision.obligations.hosts],
      environment: [...(decision.obligations.environment ?? [])],
      hardened: boundary.hardened,
      block_private_network: boundary.blockPrivateNetwork,
      ...(backend === undefined ? {} : { backend, backend_fallback: backendFallback }),
    },
    preconditions: (inspection?.paths ?? []).map((fact) => ({
      path: fact.path,
      real_path: fact.exists ? fact.realPath : '',
      content_digest: fact.exists ? Buffer.from(fact.contentDigest).toString('hex') : '',
    })),
    chain: [session.id],
    offers: offersOf(decision, always),
    ...(decision.review?.approvals === undefined ? {} : { approvals: decision.review.approvals }),
  };
}

const summaryOf = (call: ParsedCall): string => {
  const main =
    call.args.command ?? call.args.action ?? call.args.pattern ?? call.args.path ?? call.args.url ?? call.args.query;
  const shown = typeof main === 'string' ? main : runsAtAgent(call.submit) ? JSON.stringify(call.args) : '';
  return `${call.tool} ${shown}`.trim();
};

/** A refusal of the host that stands as a denial: the path belongs to Countersign itself or lies where no call may reach. */
const isHostDenial = (code: string): boolean =>
  code === ERROR_CODES.privatePath || code === ERROR_CODES.badRoot || code === ERROR_CODES.badOwner;

const denial = (message: string): Decision => ({
  effect: 'deny',
  reasons: [message],
  decidingRules: [],
  obligations: { profile: 'read-only', denyRead: [], denyWrite: [], hosts: [] },
  ignoredWidenings: [],
  askKinds: [],
});

/** Why the host does not carry a call out, as the agent reads it. */
function refusalOf({ kind, code, message }: InspectError): CallRefusal {
  const known = Object.values(ERROR_CODES).find((one) => one === code);
  return { code: kind === 'refused' && known ? known : ERROR_CODES.hostUnavailable, message };
}

/** What a command starts, for the host to look at; nothing for other calls. */
function namedOf(session: Session, { args }: ParsedCall, home: string | undefined) {
  if (typeof args.command !== 'string' || home === undefined) return {};
  const cwd = typeof args.cwd === 'string' ? normalisePath(args.cwd, session.project, home) : session.project;
  return { named: namedPrograms(args.command, { cwd, home }) };
}

function inspectCall(
  { gateway, host, ground, call }: Judging,
  { obligations, home }: { obligations?: Decision['obligations']; home?: string } = {},
) {
  const { connection } = gateway.broker;
  const { session } = ground.chain;
  return inspect(
    { connection, identity: gateway.identity, control: gateway.control, host },
    {
      callId: call.submit.callId,
      tool: call.tool,
      project: session.project,
      payload: call.payload,
      pathsOnly: obligations === undefined,
      denyRead: obligations?.denyRead ?? [],
      denyWrite: obligations?.denyWrite ?? [],
      ...namedOf(session, call, home),
    },
  );
}

/** Everything that the answers about one call share. */
type Judging = {
  readonly gateway: Gateway;
  readonly ground: Ground;
  readonly call: ParsedCall;
  readonly heartbeat: Heartbeat;
  readonly host: Member;
  readonly rules: readonly StoredRule[];
};

/** The engine's answer on real paths and saved rules. */
function decideOn({ gateway, ground, call, heartbeat }: Judging, facts: Inspection | undefined) {
  const realpaths = Object.fromEntries((facts?.paths ?? []).map((fact) => [fact.path, fact.realPath]));
  const { bounded } = ground.chain;
  const { executor } = call.submit;
  const asked = { tool: call.tool, executor, args: call.args, ...tightenedBy(bounded, call.submit) };
  return (rules: readonly StoredRule[]): Decision => {
    const known = { realpaths, grants: grantsOf(gateway, bounded.id), laid: lay(ground, rules) };
    return gateway.policy.current.decide(bounded, asked, heartbeat, known);
  };
}

async function decideFresh(judging: Judging, facts: Inspection | undefined): Promise<Decision> {
  const { gateway, ground, rules } = judging;
  const decide = decideOn(judging, facts);
  const decision = decide(rules);
  if (decision.effect !== 'ask' || !decision.grantOffer) return decision;
  // Another gateway may have given the grant a moment ago; nobody is asked again for that.
  await gateway.grants.refresh(ground.chain.session.id);
  return decide(rules);
}

type Answer = Result<Evaluation, CallRefusal>;

function answerOf(judging: Judging, decision: Decision, inspection?: Inspection): Answer {
  const { gateway, ground, call, rules, heartbeat } = judging;
  const { bounded: session, ancestors } = ground.chain;
  const { tighten, tightenSource, turnId } = call.submit;
  // How long an agent works on its own call is not known, unless it says so.
  const usualMs = runsAtAgent(call.submit) ? Number.MAX_SAFE_INTEGER : undefined;
  const timeoutMs = gateway.policy.current.timeoutMs(call.tool, call.args.timeout_ms ?? usualMs);
  const { effect } = decision;
  // A path call was decided on its own facts; those of a command's programs are no paths of the call.
  const decide = decideOn(judging, namesPath(call.tool) ? inspection : undefined);
  const always = effect === 'ask' && !runsAtAgent(call.submit) ? alwaysOffer(decision, rules, decide) : undefined;
  const cwd = always && folderOf(call, session.project, heartbeat.home);
  const view = {
    ...viewOf(session, { call, decision, inspection, timeoutMs, always }, gateway),
    ...(tighten === '' ? {} : { tighten: { effect: tighten, source: tightenSource.slice(0, 200) } }),
    ...(turnId === '' ? {} : { turn: turnId }),
    ...(ground.named.length === 0 ? {} : { files: ground.named.map((file) => ({ ...file })) }),
    ...(cwd === undefined ? {} : { cwd }),
    chain: [...ancestors.map((one) => one.session.id).toReversed(), session.id],
  };
  return ok({
    decision,
    action: actionOf(call.tool) ?? 'execute',
    view: underGrants(gateway, session.id, decision, view),
    summary: summaryOf(call),
    basis: [
      gateway.policy.basis(),
      ground.basis,
      ...ancestors.map(({ session: { id }, version }) => ({ kind: 'session', key: id, version })),
    ],
    chain: ground.chain,
    savedRules: effect === 'allow' ? rulesThatAllow(rules, decide) : [],
  });
}

const refused = (judging: Judging, error: InspectError): Answer =>
  isHostDenial(error.code) ? answerOf(judging, denial(error.message)) : err(refusalOf(error));

/** A call that names no path. What a command starts is looked at where somebody decides, or where a saved rule depends on it. */
async function evaluatePathless(judging: Judging): Promise<Answer> {
  const { call, rules } = judging;
  const alone = await decideFresh(judging, undefined);
  const loose = rules.filter(({ files }) => files.length === 0);
  const isBound =
    alone.effect === 'allow' && loose.length < rules.length && decideOn(judging, undefined)(loose).effect !== 'allow';
  const looks = alone.effect === 'ask' || isBound;
  if (!looks || !runsCommand(call.tool)) return answerOf(judging, alone);
  const { home } = judging.heartbeat;
  const named = await inspectCall(judging, { home, obligations: alone.obligations });
  if (!named.ok) return refused(judging, named.error);
  if (!isBound) return answerOf(judging, alone, named.value);
  const kept = { ...judging, rules: rules.filter((rule) => isUnchanged(rule, named.value)) };
  return answerOf(kept, await decideFresh(kept, undefined), named.value);
}

async function evaluatePath(judging: Judging): Promise<Answer> {
  const paths = await inspectCall(judging);
  if (!paths.ok) return refused(judging, paths.error);
  const decision = await decideFresh(judging, paths.value);
  // SECURITY: content is looked at only for a call that may be approved, and under the rules that it would run under.
  if (decision.effect !== 'ask' || !changesFile(judging.call.tool)) return answerOf(judging, decision, paths.value);
  const whole = await inspectCall(judging, { obligations: decision.obligations });
  if (!whole.ok) return refused(judging, whole.error);
  return answerOf(judging, await decideFresh(judging, whole.value), whole.value);
}

/**
 * Decides a call on the policy, the permission files of its host and the saved rules. File tools get the host's real paths
 * first; without them nothing is decided, because no path rule could be kept. The same facts become preconditions of the order.
 */
export async function evaluate(gateway: Gateway, chain: SessionChain, call: ParsedCall): Promise<Answer> {
  const { session } = chain;
  const sessions = [session.id, ...chain.ancestors.map((one) => one.session.id)];
  const frozen = gateway.freeze.holds({ agent: session.agent, host: session.host, sessions });
  if (frozen !== undefined)
    return err({
      code: ERROR_CODES.frozen,
      message: `\`${frozen}\` is frozen; send the call again when that is lifted`,
    });
  const heartbeat = gateway.hosts.present(session.host, gateway.now());
  const host = await gateway.members.find('host', session.host);
  if (!heartbeat && host && gateway.now() - gateway.startedMs < SETTLE_MS) {
    throw new FaultError('hosts have not reported since this gateway started', {
      code: ERROR_CODES.hostUnavailable,
      retryable: true,
    });
  }
  if (!heartbeat?.ready || !host) {
    const reason = heartbeat?.reason ?? 'no heartbeat';
    return err({ code: ERROR_CODES.hostUnavailable, message: `host \`${session.host}\` is not ready: ${reason}` });
  }
  const read = await groundOf(gateway, chain, host);
  const ground = read.ok ? read.value : await groundOn(gateway, chain, []);
  // SECURITY: a saved rule speaks about calls inside the sandbox, not about what the agent carries out itself.
  const rules = runsAtAgent(call.submit) ? [] : rulesOfCall(ground.rules, call, session, heartbeat.home);
  const judging: Judging = { gateway, ground, call, heartbeat, host, rules };
  if (!read.ok) return refused(judging, read.error);
  return namesPath(call.tool) ? evaluatePath(judging) : evaluatePathless(judging);
}
