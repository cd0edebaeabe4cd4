import type { DecisivePart } from '@countersign/policy';
import { CallPayload, type CallRecord, parseIJson } from '@countersign/protocol';
import { visible } from '../access/principal.ts';
import { callSummary } from '../calls/announce.ts';
import { type Opinion, readOpinion } from '../calls/guardian-opinions.ts';
import { readView, type View } from '../calls/view.ts';
import type { Gateway } from '../context.ts';
import { grantsOf } from '../grants/use-grants.ts';
import { lastGround, lay } from '../layers/session-layers.ts';
import { maskText } from '../masking.ts';
import type { Session, SessionChain } from '../record/sessions.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';
import { callIdSchema, NO_CALL, visibleCall } from './visible-call.ts';

/** Newest calls among which alike ones are looked for, and how many of them are shown. */
const LOOK_BACK = 500;
const MAX_ALIKE = 12;

type Args = Readonly<Record<string, unknown>>;

async function argumentsOf(gateway: Gateway, record: CallRecord, reader: string): Promise<Args | undefined> {
  const payload = await gateway.audit.getPayload(record.callId, reader);
  const opened = await gateway.control
    .open(payload?.sealedPayload ?? new Uint8Array(), record.callId)
    .catch(() => undefined);
  const parsed = opened && parseIJson(CallPayload.decode(opened).arguments);
  const value = parsed?.ok ? parsed.value : undefined;
  return typeof value === 'object' && value !== null ? (value as Args) : undefined;
}

const sessionOf = (session: Session) => ({
  id: session.id,
  agent: session.agent,
  principal: session.principal,
  host: session.host,
  project: session.project,
  permissionMode: session.permission_mode,
  approvalMode: session.approval_mode,
  model: [session.model.provider, session.model.name].filter(Boolean).join(' '),
  requestText: session.request_text,
  ...(session.request_by === undefined ? {} : { requestBy: session.request_by }),
  state: session.state,
});

const guardianOf = ({ approve, category, reason, provider, model }: Opinion) => ({
  verdict: category === 'reviewed' ? (approve ? 'approve' : 'deny') : category,
  reason,
  model: [provider, model].filter(Boolean).join(' '),
});

const limitsOf = (view: View, args: Args | undefined) => ({
  project: view.project,
  folder: typeof args?.cwd === 'string' ? args.cwd : view.project,
  hosts: view.obligations.hosts,
  denyRead: view.obligations.deny_read,
  denyWrite: view.obligations.deny_write,
  environment: view.obligations.environment,
  timeoutMs: view.obligations.timeout_ms,
  preconditions: view.preconditions.map(({ path, real_path }) => ({ path, realPath: real_path })),
  chain: view.chain,
});

const maskPart = (part: DecisivePart) => ({ ...part, reasons: part.reasons.map(maskText) });

/** The engine's reading of the call by the policy as it is now; undefined while the host is away. */
async function presentReading(
  gateway: Gateway,
  chain: SessionChain,
  record: CallRecord,
  args: Args,
  view: View | undefined,
) {
  const host = gateway.hosts.present(chain.session.host, gateway.now());
  if (!host) return {};
  const ground = await lastGround(gateway, chain);
  const session = ground.chain.bounded;
  const grants = grantsOf(gateway, session.id);
  const { tool, executor } = record;
  const call = { tool, executor, args, tighten: '', tightenSource: '' };
  const realpaths = Object.fromEntries(
    (view?.preconditions ?? []).map((item) => [item.path, item.real_path || item.path]),
  );
  const laid = lay(ground);
  const decision = gateway.policy.current.decide(session, call, host, { realpaths, grants, laid });
  const command = gateway.policy.current.partsOf(session, call, host, { realpaths: {}, grants, laid });
  return {
    present: {
      effect: decision.effect,
      reasons: decision.reasons.map(maskText),
      rules: [...decision.decidingRules],
      mode: session.permission_mode,
    },
    ...(command ? { command: { ...command, decisive: command.decisive.map(maskPart) } } : {}),
  };
}

/** Program of a command line as its masked summary shows it. */
const programOf = ({ tool, summary }: CallRecord): string =>
  tool === 'bash'
    ? (summary
        .slice(tool.length)
        .trim()
        .split(/\s+/)
        .find((word) => !/^\w+=/.test(word)) ?? '')
    : '';

const isAlike = (a: CallRecord, b: CallRecord): boolean =>
  a.callId !== b.callId && a.tool === b.tool && a.agent === b.agent && programOf(a) === programOf(b);

/** Routes that give a reviewer what surrounds a call. They change nothing. */
export function addDeskContext(app: Http, gateway: Gateway): void {
  /** Parts of the command and which of them decide, limits of the order, session, the Guardian's opinion, and the engine's present answer. */
  app.get(
    '/v1/calls/:id/context',
    { config: { access: ACCESS.read }, schema: { params: callIdSchema } },
    async (request, reply) => {
      const record = await visibleCall(gateway, request);
      if (!record) return sendProblem(reply, NO_CALL);
      const [args, found, kept] = await Promise.all([
        argumentsOf(gateway, record, principalOf(request).name),
        gateway.sessions.chain(record.sessionId),
        readOpinion(gateway, record.callId),
      ]);
      const view = readView(record.view);
      return {
        ...(found && args ? await presentReading(gateway, found, record, args, view) : {}),
        ...(view ? { limits: limitsOf(view, args) } : {}),
        ...(found ? { session: sessionOf(found.session) } : {}),
        ...(kept ? { guardian: guardianOf(kept.opinion) } : {}),
      };
    },
  );

  /** Earlier calls of the same tool, agent and program, newest first; masked text. */
  app.get(
    '/v1/calls/:id/alike',
    { config: { access: ACCESS.read }, schema: { params: callIdSchema } },
    async (request, reply) => {
      const record = await visibleCall(gateway, request);
      if (!record) return sendProblem(reply, NO_CALL);
      const principal = principalOf(request);
      const { calls } = await gateway.audit.listCalls([], LOOK_BACK);
      const alike = calls.filter((call) => isAlike(record, call) && visible(principal, call, gateway.queues));
      return { calls: alike.slice(0, MAX_ALIKE).map(callSummary) };
    },
  );
}
