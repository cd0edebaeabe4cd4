import { err, FaultError, ok, type Result } from '@countersign/kernel';
import { normalisePath } from '@countersign/patterns';
import { actionOf, type Decision, namedPrograms } from '@countersign/policy';
import { changesFile, ERROR_CODES, namesPath, runsCommand } from '@countersign/protocol';
import { type InspectError, type Inspection, inspect } from '../broker/inspect.ts';
import type { Gateway } from '../context.ts';
import { grantsOf, underGrants } from '../grants/use-grants.ts';
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
};

/** At most this many covers go into one grant. */
const MAX_COVERS = 16;

function offersOf({ grantOffer }: Decision): View['offers'] {
  if (grantOffer === undefined || grantOffer.length > MAX_COVERS) return {};
  return { session: grantOffer.map((grant) => ({ ...grant })) };
}

type Boundary = Pick<Gateway, 'hardened' | 'blockPrivateNetwork'>;
type Viewed = {
  readonly call: ParsedCall;
  readonly decision: Decision;
  readonly inspection?: Inspection | undefined;
  readonly timeoutMs: number;
};

function viewOf(session: Session, { call, decision, inspection, timeoutMs }: Viewed, boundary: Boundary): View {
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
    },
    preconditions: (inspection?.paths ?? []).map((fact) => ({
      path: fact.path,
      real_path: fact.exists ? fact.realPath : '',
      content_digest: fact.exists ? Buffer.from(fact.contentDigest).toString('hex') : '',
    })),
    chain: [session.id],
    offers: offersOf(decision),
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

type Inspected = {
  readonly host: Member;
  readonly session: Session;
  readonly call: ParsedCall;
  /** Present for an inspection of the content. */
  readonly obligations?: Decision['obligations'];
  /** Of a command: the home of its account. */
  readonly home?: string;
};

/** What a command starts, for the host to look at; nothing for other calls. */
function namedOf(session: Session, { args }: ParsedCall, home: string | undefined) {
  if (typeof args.command !== 'string' || home === undefined) return {};
  const cwd = typeof args.cwd === 'string' ? normalisePath(args.cwd, session.project, home) : session.project;
  return { named: namedPrograms(args.command, { cwd, home }) };
}

function inspectCall(gateway: Gateway, { host, session, call, obligations, home }: Inspected) {
  const { connection } = gateway.broker;
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

/**
 * Decides a call. File tools get the host's real paths first; without them nothing is decided, because no path rule could
 * be kept. The same facts become preconditions of the order.
 */
export async function evaluate(
  gateway: Gateway,
  chain: SessionChain,
  call: ParsedCall,
): Promise<Result<Evaluation, CallRefusal>> {
  const session = chain.bounded;
  const ancestors = chain.ancestors.map((one) => one.session.id);
  const frozen = gateway.freeze.holds({
    agent: session.agent,
    host: session.host,
    sessions: [session.id, ...ancestors],
  });
  if (frozen !== undefined)
    return err({
      code: ERROR_CODES.frozen,
      message: `\`${frozen}\` is frozen; send the call again when that is lifted`,
    });
  const policy = gateway.policy.current;
  const basis = [
    gateway.policy.basis(),
    ...chain.ancestors.map(({ session: { id }, version }) => ({ kind: 'session', key: id, version })),
  ];
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
  const action = actionOf(call.tool) ?? 'execute';
  const summary = summaryOf(call);
  // How long an agent works on its own call is not known, unless it says so.
  const usualMs = runsAtAgent(call.submit) ? Number.MAX_SAFE_INTEGER : undefined;
  const timeoutMs = policy.timeoutMs(call.tool, call.args.timeout_ms ?? usualMs);
  const { tighten, tightenSource, executor } = call.submit;
  const asked = { tool: call.tool, executor, args: call.args, ...tightenedBy(session, call.submit) };
  const decideOn = (realpaths: Readonly<Record<string, string>>): Decision =>
    policy.decide(session, asked, heartbeat, realpaths, grantsOf(gateway, session.id));
  const decide = async (facts: Inspection | undefined): Promise<Decision> => {
    const realpaths = Object.fromEntries((facts?.paths ?? []).map((fact) => [fact.path, fact.realPath]));
    const decision = decideOn(realpaths);
    if (decision.effect !== 'ask' || !decision.grantOffer) return decision;
    // Another gateway may have given the grant a moment ago; nobody is asked again for that.
    await gateway.grants.refresh(session.id);
    return decideOn(realpaths);
  };
  const answer = (decision: Decision, inspection?: Inspection) => {
    const seen = viewOf(session, { call, decision, inspection, timeoutMs }, gateway);
    const stated = tighten === '' ? {} : { tighten: { effect: tighten, source: tightenSource.slice(0, 200) } };
    const turn = call.submit.turnId === '' ? {} : { turn: call.submit.turnId };
    const known = { ...seen, ...stated, ...turn, chain: [...ancestors.toReversed(), session.id] };
    const view = underGrants(gateway, session.id, decision, known);
    return ok({ decision, action, view, summary, basis });
  };
  const refused = (error: InspectError) =>
    isHostDenial(error.code) ? answer(denial(error.message)) : err(refusalOf(error));
  if (!namesPath(call.tool)) {
    const alone = await decide(undefined);
    if (alone.effect !== 'ask' || !runsCommand(call.tool)) return answer(alone);
    const { home } = heartbeat;
    const named = await inspectCall(gateway, { host, session, call, home, obligations: alone.obligations });
    return named.ok ? answer(alone, named.value) : refused(named.error);
  }
  const paths = await inspectCall(gateway, { host, session, call });
  if (!paths.ok) return refused(paths.error);
  const decision = await decide(paths.value);
  // SECURITY: content is looked at only for a call that may be approved, and under the rules that it would run under.
  if (decision.effect !== 'ask' || !changesFile(call.tool)) return answer(decision, paths.value);
  const whole = await inspectCall(gateway, { host, session, call, obligations: decision.obligations });
  return whole.ok ? answer(await decide(whole.value), whole.value) : refused(whole.error);
}
