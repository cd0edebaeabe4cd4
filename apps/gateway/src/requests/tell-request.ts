import { ERROR_CODES, type ErrorCode } from '@countersign/protocol';
import { tellAgent } from '../calls/announce.ts';
import type { Gateway } from '../context.ts';
import { maskText } from '../masking.ts';
import type { PermissionRequest } from './request.ts';

/** A request as lists and event streams show it: masked text only. */
export const requestSummary = (request: PermissionRequest) => ({
  id: request.id,
  kind: request.kind,
  agent: request.agent,
  principal: request.principal,
  host: request.host,
  ...(request.kind === 'update'
    ? { session: request.session, project: request.project }
    : { path: maskText(request.path) }),
  queue: request.queue,
  reason: request.reason,
  state: request.state,
  atMs: request.at_ms,
  untilMs: request.until_ms,
  ...(request.by ? { by: request.by } : {}),
  ...(request.decided_by ? { decidedBy: request.decided_by } : {}),
  ...(request.answer ? { answer: request.answer } : {}),
});

/** Tells the desk that a request begins or ends to wait. */
export function emitRequest(gateway: Gateway, request: PermissionRequest): void {
  const name = request.state === 'waiting' ? 'permission_request' : 'permission_resolved';
  gateway.hub.emit(name, requestSummary(request), request.queue);
}

const CODES: Readonly<Record<PermissionRequest['state'], ErrorCode | ''>> = {
  waiting: '',
  approved: '',
  denied: ERROR_CODES.permissionDenied,
  expired: ERROR_CODES.permissionDenied,
  cancelled: ERROR_CODES.permissionDenied,
};

/** Tells the agent how its request stands. A lost message is made up for by the agent's next resend. */
export async function tellRequest(gateway: Gateway, request: PermissionRequest): Promise<void> {
  if (request.kind === 'folder') {
    const { agent, opens: sessionId, id, state } = request;
    return tellAgent(gateway, agent, { type: 'session.folder', sessionId, requestId: id, state });
  }
  const { state, by = '', answer = '', queue, principal } = request;
  const waits = state === 'waiting';
  const unheard = waits && !(await gateway.reach.isReachable({ queue, principal }));
  const ended = [state, by && `by ${by}`].filter(Boolean).join(' ') + (answer ? `: ${answer}` : '');
  tellAgent(gateway, request.agent, {
    ...{ type: 'session.answer', sessionId: request.session, requestId: request.request },
    ...{ state: waits ? 'pending' : state, decidedBy: request.decided_by ?? '' },
    reason: waits ? `waits at the desk as \`${request.id}\`${unheard ? '; nobody follows the desk' : ''}` : ended,
    code: unheard ? ERROR_CODES.noApprover : CODES[state],
  });
}
