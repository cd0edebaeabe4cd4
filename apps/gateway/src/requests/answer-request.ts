import { createHash } from 'node:crypto';
import { err, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES, type ErrorCode } from '@countersign/protocol';
import type { Versioned } from '../access/record-view.ts';
import { redecideUnsettled } from '../calls/redecide.ts';
import type { Gateway } from '../context.ts';
import { folderTrust } from '../layers/give-trust.ts';
import type { StoredRule } from '../layers/stored-rule.ts';
import { maskText } from '../masking.ts';
import { json } from '../record/entries.ts';
import type { SessionChain } from '../record/sessions.ts';
import { replayWaiting } from '../sessions/replay-waiting.ts';
import { MAX_RULES, type Plan, planUpdates } from './plan-updates.ts';
import type { FolderRequest, PermissionRequest, UpdateRequest } from './request.ts';
import type { Together } from './request-desk.ts';
import { emitRequest, tellRequest } from './tell-request.ts';
import type { Update } from './updates.ts';

/** Why a request was not answered; `winner` names who was first. */
export type AnswerProblem = { readonly code: ErrorCode; readonly message: string; readonly winner?: string };
const problem = (code: ErrorCode, message: string): Result<never, AnswerProblem> => err({ code, message });

/** What an approval would do, in words, and the digest that an answer must name. */
export type Shown = { readonly says: readonly string[]; readonly digest: string };
const MAX_TRIES = 3;

/** The digest of what a person was shown; an answer on something else is stale. */
const digestOf = (request: PermissionRequest, says: readonly string[]): string =>
  createHash('sha256')
    .update(JSON.stringify([request.id, request.at_ms, says]))
    .digest('hex');

const folderSays = ({ agent, host, path }: FolderRequest): string[] => [
  `agent \`${agent}\` may open sessions in \`${path}\` on \`${host}\`, until somebody revokes it`,
  'permission files in that folder go on to tighten only, until somebody trusts them too',
];

async function planOf(
  gateway: Gateway,
  request: UpdateRequest,
  by: string,
): Promise<Result<{ chain: SessionChain; plan: Plan }, AnswerProblem>> {
  const chain = await gateway.sessions.chain(request.session);
  if (chain?.bounded.state !== 'open') return problem(ERROR_CODES.notOffered, 'its session is not open any more');
  const plan = await planUpdates(gateway, chain, request.updates, { by, from: request.id });
  return plan.ok ? ok({ chain, plan: plan.value }) : err(plan.error);
}

/** What an approval would change as things are now. */
export async function showRequest(gateway: Gateway, request: PermissionRequest): Promise<Result<Shown, AnswerProblem>> {
  if (request.kind === 'folder') {
    const says = folderSays(request);
    return ok({ says, digest: digestOf(request, says) });
  }
  const planned = await planOf(gateway, request, '');
  if (!planned.ok) return planned;
  const { says } = planned.value.plan;
  return ok({ says, digest: digestOf(request, says) });
}

/** Entries and documents that put a plan in force; `by` and `request` go into the entry of the session. */
export function effectsOf(
  gateway: Gateway,
  chain: SessionChain,
  plan: Plan,
  by: { name: string; request: string },
): Together {
  const { session, rules, says } = plan;
  const nowMs = gateway.now();
  const saved = rules.map(({ id, state }: StoredRule) => ({ rule: id, state }));
  const layers =
    rules.length === 0
      ? { entries: [], documents: [] }
      : gateway.layers.draft({
          type: 'rule.published',
          detail: { by: by.name, from: by.request, says: says.map(maskText), rules: saved },
          rules,
        });
  const change = session && {
    id: `ent_${session.id}_session.changed_${chain.version + 1n}`,
    type: 'session.changed',
    stream: session.id,
    emittedMs: BigInt(nowMs),
    body: json({
      session: session.id,
      detail: {
        by: by.name,
        request: by.request,
        permissionMode: session.permission_mode,
        approvalMode: session.approval_mode,
      },
    }),
  };
  const document = session && {
    kind: 'session',
    key: session.id,
    value: json(session),
    expectedVersion: chain.version,
  };
  return {
    entries: [...layers.entries, ...(change ? [change] : [])],
    documents: [...layers.documents, ...(document ? [document] : [])],
    expected: [
      gateway.policy.basis(),
      ...(document ? [] : [{ kind: 'session', key: chain.session.id, version: chain.version }]),
      ...chain.ancestors.map(({ session: one, version }) => ({ kind: 'session', key: one.id, version })),
    ],
  };
}

/** Makes what was saved known here and at the other gateways, and decides again what has not started. */
export async function afterEffects(gateway: Gateway): Promise<void> {
  await gateway.layers.refresh();
  gateway.broker.bus.tell('layers');
  void redecideUnsettled(gateway);
}

function frozenScope(gateway: Gateway, request: PermissionRequest, chain?: SessionChain): string | undefined {
  const sessions = chain ? [chain.session.id, ...chain.ancestors.map(({ session }) => session.id)] : [];
  return gateway.freeze.holds({ agent: request.agent, host: request.host, sessions });
}

type Approval = { readonly says: readonly string[]; readonly together: Together };

async function approvalOf(
  gateway: Gateway,
  request: PermissionRequest,
  by: string,
): Promise<Result<Approval, AnswerProblem>> {
  const frozen = (chain?: SessionChain) => {
    const scope = frozenScope(gateway, request, chain);
    return scope === undefined
      ? undefined
      : problem(ERROR_CODES.frozen, `\`${scope}\` is frozen; the request goes on waiting`);
  };
  if (request.kind === 'folder') {
    const change = frozen() ?? (await folderTrust(gateway, request, by));
    return change.ok ? ok({ says: folderSays(request), together: gateway.layers.draft(change.value) }) : change;
  }
  const planned = await planOf(gateway, request, by);
  if (!planned.ok) return planned;
  const { chain, plan } = planned.value;
  return (
    frozen(chain) ??
    ok({ says: plan.says, together: effectsOf(gateway, chain, plan, { name: by, request: request.id }) })
  );
}

/** One end of a waiting request. */
export type End = {
  readonly state: 'approved' | 'denied' | 'expired' | 'cancelled';
  readonly decidedBy: 'human' | 'eternal' | 'timeout' | 'session' | 'revocation';
  readonly by: string;
  readonly reason: string;
};

/** Ends a waiting request in the record and tells desk and agent; false when it was changed at the same moment. */
async function end(
  gateway: Gateway,
  { value, version }: Versioned<PermissionRequest>,
  how: End,
  approval?: Approval,
): Promise<PermissionRequest | undefined> {
  const ended: PermissionRequest = {
    ...value,
    ...{
      state: how.state,
      decided_by: how.decidedBy,
      by: how.by,
      decided_ms: gateway.now(),
      answer: maskText(how.reason),
    },
  };
  const step = { what: `permission.${how.state}`, by: how.by, says: (approval?.says ?? []).map(maskText) } as const;
  if (!(await gateway.requests.record(ended, version, step, approval?.together))) return undefined;
  if (approval) await afterEffects(gateway);
  emitRequest(gateway, ended);
  await tellRequest(gateway, ended);
  return ended;
}

/** A person's answer. `digest` is that of what he was shown. */
export type Answer = { readonly answer: 'approve' | 'deny'; readonly digest: string; readonly reason: string };

function refusalOf(
  gateway: Gateway,
  request: PermissionRequest,
  { answer }: Answer,
  by: string,
): AnswerProblem | undefined {
  const { state, principal } = request;
  if (state !== 'waiting') {
    const winner = request.by ?? '';
    return {
      code: ERROR_CODES.alreadyDecided,
      message: `the request is ${state}${winner ? ` by ${winner}` : ''}`,
      winner,
    };
  }
  if (gateway.now() >= request.until_ms)
    return { code: ERROR_CODES.alreadyDecided, message: 'the request expired', winner: '' };
  if (answer === 'approve' && by === principal)
    return { code: ERROR_CODES.forbidden, message: 'nobody widens what acts for himself; ask somebody else' };
  return undefined;
}

/** Answers a waiting request once. INVARIANT: the answer, its entry and everything that it changes are one commit. */
export async function answerRequest(
  gateway: Gateway,
  id: string,
  answer: Answer,
  by: string,
): Promise<Result<PermissionRequest, AnswerProblem>> {
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    const found = await gateway.requests.find(id);
    if (!found) return problem(ERROR_CODES.notFound, 'no such request');
    const refused = refusalOf(gateway, found.value, answer, by);
    if (refused) return err(refused);
    const how = { decidedBy: 'human', by, reason: answer.reason } as const;
    if (answer.answer === 'deny') {
      const denied = await end(gateway, found, { state: 'denied', ...how });
      if (denied) return ok(denied);
      continue;
    }
    const approval = await approvalOf(gateway, found.value, by);
    if (!approval.ok) return approval;
    if (digestOf(found.value, approval.value.says) !== answer.digest)
      return problem(ERROR_CODES.staleView, 'the request would change something else now; look at it again');
    const approved = await end(gateway, found, { state: 'approved', ...how }, approval.value);
    if (approved) return ok(approved);
  }
  return problem(ERROR_CODES.changedMeanwhile, 'session, rules or policy changed at the same moment; look again');
}

/**
 * What unattended mode answers by itself (policy.md section 9): permission modes up to `networked` and hosts of the
 * organisation's list, for the session. An approval mode is not among them: who answers asks stays a person's choice.
 */
function isUnattended(gateway: Gateway, chain: SessionChain, updates: readonly Update[]): boolean {
  if (!chain.bounded.eternal || gateway.policy.current.above(chain.bounded) !== undefined) return false;
  const listed = new Set(gateway.policy.current.allowedHosts);
  return updates.every((update) => {
    if (update.destination !== 'session') return false;
    if (update.type === 'setMode') return update.mode !== 'yolo' && update.approvalMode === undefined;
    return update.type === 'addHosts' && update.hosts.every((host) => listed.has(host));
  });
}

/** Approves a waiting update by unattended mode where policy.md section 9 lets it; false when it goes on waiting. */
export async function approveUnattended(gateway: Gateway, request: UpdateRequest): Promise<boolean> {
  const chain = await gateway.sessions.chain(request.session);
  const found = await gateway.requests.find(request.id);
  if (!chain || found?.value.state !== 'waiting' || !isUnattended(gateway, chain, request.updates)) return false;
  const approval = await approvalOf(gateway, request, 'unattended mode');
  if (!approval.ok) return false;
  const how = { state: 'approved', decidedBy: 'eternal', by: 'unattended mode', reason: '' } as const;
  return (await end(gateway, found, how, approval.value)) !== undefined;
}

/** Answers what waits in a session by unattended mode: calls of the mode table, and updates that it may approve. */
export async function replaySession(gateway: Gateway, session: string): Promise<void> {
  gateway.requests.expire();
  for (const request of await gateway.requests.waiting())
    if (request.kind === 'update' && request.session === session) await approveUnattended(gateway, request);
  await replayWaiting(gateway, session);
}

/** Ends waiting requests of a session that is closed, and rules that were saved for it alone. */
export async function endRequestsOf(
  gateway: Gateway,
  session: string,
  by: { name: string; reason: string },
): Promise<void> {
  gateway.requests.expire();
  for (const request of await gateway.requests.waiting()) {
    const found =
      request.kind === 'update' && request.session === session ? await gateway.requests.find(request.id) : undefined;
    if (found?.value.state === 'waiting')
      await end(gateway, found, { state: 'cancelled', decidedBy: 'session', by: by.name, reason: by.reason });
  }
  const rules = gateway.layers
    .rules()
    .filter((rule) => rule.layer === 'session' && rule.session === session && rule.state !== 'revoked');
  if (rules.length === 0) return;
  for (let from = 0; from < rules.length; from += MAX_RULES) {
    const part = rules.slice(from, from + MAX_RULES);
    const detail = { by: by.name, session, rules: part.map(({ id }) => id) };
    const ended = part.map((rule): StoredRule => ({ ...rule, state: 'revoked', ended_by: by.name }));
    await gateway.layers.change({ type: 'rule.revoked', detail, rules: ended });
  }
  gateway.broker.bus.tell('layers');
}

/** Ends waiting requests that one of these keys signed. */
export async function endRequestsOfKeys(
  gateway: Gateway,
  keys: ReadonlySet<string>,
  by: { name: string; reason: string },
): Promise<void> {
  gateway.requests.expire();
  for (const request of await gateway.requests.waiting()) {
    const found = keys.has(request.key ?? '') ? await gateway.requests.find(request.id) : undefined;
    if (found?.value.state === 'waiting')
      await end(gateway, found, { state: 'cancelled', decidedBy: 'revocation', by: by.name, reason: by.reason });
  }
}

/** Ends requests that nobody answered in time, without the name of anybody. */
export async function expireRequests(gateway: Gateway): Promise<void> {
  for (const request of await gateway.requests.waiting()) {
    if (gateway.now() < request.until_ms) continue;
    const found = await gateway.requests.find(request.id);
    if (found?.value.state === 'waiting')
      await end(gateway, found, { state: 'expired', decidedBy: 'timeout', by: '', reason: 'nobody answered in time' });
  }
}
