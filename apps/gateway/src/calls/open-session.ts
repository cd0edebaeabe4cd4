import { err, isSubjectToken, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES, type ErrorCode, type SessionOpen } from '@countersign/protocol';
import type { Gateway } from '../context.ts';
import type { Member, Sender } from '../record/members.ts';
import { MAX_DEPTH, type Session, type VersionedSession } from '../record/sessions.ts';
import { askFolder } from '../requests/ask-person.ts';
import { beyondAncestors } from '../sessions/beyond-ancestors.ts';
import { spendChildToken } from '../sessions/child-token.ts';
import { outsideRoots } from '../sessions/rooted.ts';
import { tellAgent } from './announce.ts';
import { reviewProblem } from './guardian.ts';

const MAX_TEXT = 20_000;
const PERMISSION_MODES = new Set(['strict', 'dev', 'networked', 'yolo']);
const APPROVAL_MODES = new Set(['manual', 'auto', 'full_access']);

type Refusal = { readonly code: ErrorCode; readonly message: string };

const placeOf = ({ host, project, sessionId }: SessionOpen) => ({ host, path: project, opens: sessionId });

function check(gateway: Gateway, member: Member, request: SessionOpen, session: Session): Refusal | undefined {
  const invalid = (message: string) => ({ code: ERROR_CODES.invalidArguments, message });
  if (!PERMISSION_MODES.has(session.permission_mode))
    return invalid(`permission mode \`${session.permission_mode.slice(0, 40)}\` is not known`);
  if (!APPROVAL_MODES.has(session.approval_mode))
    return invalid(`approval mode \`${session.approval_mode.slice(0, 40)}\` is not known`);
  if (request.requestText.length > MAX_TEXT) return invalid(`request text is over ${MAX_TEXT} characters`);
  const above = gateway.policy.current.ceiling(session.permission_mode, session.approval_mode);
  if (above) return { code: ERROR_CODES.ceiling, message: above };
  if (!member.hosts.includes(request.host))
    return {
      code: ERROR_CODES.unknownRoot,
      message: `host \`${request.host.slice(0, 64)}\` is not enrolled for this agent`,
    };
  return undefined;
}

type Parent = { readonly from: VersionedSession; readonly to: Session };

/** The parent that a request names, with its token spent; undefined for a root session. */
async function parentOf(
  gateway: Gateway,
  request: SessionOpen,
  session: Session,
): Promise<Result<Parent | undefined, Refusal>> {
  const { parentSession, sealedChildToken, sessionId } = request;
  if (parentSession === '') return ok(undefined);
  const refuse = err({ code: ERROR_CODES.childToken, message: 'parent session or its token is not valid' });
  const chain = await gateway.sessions.chain(parentSession);
  const token = await gateway.control.open(sealedChildToken, sessionId).catch(() => undefined);
  if (!chain || !token || chain.bounded.state !== 'open' || chain.session.principal !== session.principal)
    return refuse;
  if (chain.ancestors.length + 1 >= MAX_DEPTH)
    return err({ code: ERROR_CODES.childToken, message: `sessions are at most ${MAX_DEPTH} deep` });
  const to = spendChildToken(chain.session, new TextDecoder().decode(token), gateway.now());
  if (!to) return refuse;
  const beyond = await beyondAncestors(gateway, { session, ancestors: [chain, ...chain.ancestors] });
  return beyond ? err(beyond) : ok({ from: chain, to });
}

/** Opens a session for an agent, at the managed defaults or stricter, and tells the agent. Repeating it gives the same answer. */
export async function openSession(gateway: Gateway, member: Sender, request: SessionOpen): Promise<void> {
  if (!isSubjectToken(request.sessionId)) return;
  const { sessionId } = request;
  const answer = (type: string, facts: object = {}) => tellAgent(gateway, member.id, { type, sessionId, ...facts });
  const existing = await gateway.sessions.find(sessionId);
  if (existing) {
    const own = existing.session.agent === member.id && existing.session.state === 'open';
    return own
      ? answer('session.opened')
      : answer('session.refused', { code: ERROR_CODES.unknownSession, reason: 'session id is taken or closed' });
  }
  const session: Session = {
    id: sessionId,
    agent: member.id,
    principal: member.principal,
    host: request.host,
    project: request.project,
    permission_mode: (request.permissionMode || gateway.policy.current.defaultMode) as Session['permission_mode'],
    approval_mode: (request.approvalMode || 'manual') as Session['approval_mode'],
    eternal: false,
    model: { provider: request.modelProvider, name: request.modelName },
    request_text: request.requestText,
    state: 'open',
    labels: {},
  };
  const refusal = check(gateway, member, request, session);
  if (refusal) return answer('session.refused', { code: refusal.code, reason: refusal.message });
  const isOutside = () => outsideRoots(gateway, member, request.host, request.project);
  // Another gateway may just have recorded the trust.
  if (isOutside()) await gateway.layers.refresh();
  const outside = isOutside();
  if (outside) {
    const { code, message, state, requestId } = await askFolder(gateway, member, placeOf(request), outside);
    return answer('session.refused', { code, reason: message, state, requestId });
  }
  const parent = await parentOf(gateway, request, session);
  if (!parent.ok) return answer('session.refused', { code: parent.error.code, reason: parent.error.message });
  const failed = await gateway.sessions.open(
    parent.value ? { ...session, parent: parent.value.to.id } : session,
    gateway.now(),
    parent.value,
  );
  if (failed) return answer('session.refused', { code: ERROR_CODES.auditConflict, reason: failed });
  const problem = session.approval_mode === 'auto' ? await reviewProblem(gateway, session.model) : undefined;
  answer('session.opened', problem === undefined ? {} : { reason: problem });
}
