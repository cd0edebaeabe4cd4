import { ERROR_CODES } from '@countersign/protocol';
import { z } from 'zod';
import { type Principal, visible } from '../access/principal.ts';
import type { Gateway } from '../context.ts';
import { maskText } from '../masking.ts';
import type { Session } from '../record/sessions.ts';
import { replaySession } from '../requests/answer-request.ts';
import { closeSession } from '../sessions/close-session.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';

const params = z.object({ id: z.string().regex(/^[\w-]{1,64}$/) });
const NO_SESSION = { code: ERROR_CODES.notFound, message: 'no such open session' };

const sessionView = (session: Session) => ({
  id: session.id,
  agent: session.agent,
  principal: session.principal,
  host: session.host,
  project: session.project,
  permissionMode: session.permission_mode,
  approvalMode: session.approval_mode,
  eternal: session.eternal,
  state: session.state,
  ...(session.parent === undefined ? {} : { parent: session.parent }),
  ...(session.paused === undefined ? {} : { pausedMs: session.paused.at_ms }),
  ...(session.request_by === undefined ? {} : { requestBy: session.request_by }),
});

/** Sessions that one answer lists. */
const MAX_LISTED = 500;

/** SECURITY: a reader learns of a session when he may read a queue of its agent. */
async function listSessions(gateway: Gateway, principal: Principal, state: string | undefined) {
  const newest = (await gateway.sessions.newest(MAX_LISTED)).filter(
    (one) => state === undefined || one.state === state,
  );
  const agents = await Promise.all(newest.map(({ agent }) => gateway.members.find('agent', agent)));
  const mayRead = (queues: readonly string[] = []) =>
    (queues.length === 0 ? ['default'] : queues).some((queue) => visible(principal, { queue }, gateway.queues));
  return newest.filter((_, at) => mayRead(agents[at]?.queues));
}

/** Routes of sessions. */
export function addSessionRoutes(app: Http, gateway: Gateway): void {
  /** The newest 500 sessions that the caller may know of, newest first; `state` is `open` or `closed`. */
  app.get(
    '/v1/sessions',
    {
      config: { access: ACCESS.read },
      schema: { querystring: z.object({ state: z.enum(['open', 'closed']).optional() }) },
    },
    async (request) => {
      const found = await listSessions(gateway, principalOf(request), request.query.state);
      return { sessions: found.map((session) => ({ ...sessionView(session), requestText: session.request_text })) };
    },
  );

  /** One session, as it is bounded by its ancestors, with its chain from the root. */
  app.get('/v1/sessions/:id', { config: { access: ACCESS.exportAll }, schema: { params } }, async (request, reply) => {
    const chain = await gateway.sessions.chain(request.params.id);
    if (!chain) return sendProblem(reply, { code: ERROR_CODES.notFound, message: 'no such session' });
    const ids = chain.ancestors.map(({ session }) => session.id).toReversed();
    return { ...sessionView(chain.bounded), chain: [...ids, chain.session.id] };
  });

  /** Changes modes inside the ceilings, for later calls only; turning unattended mode on answers what waits for nothing else. */
  app.post(
    '/v1/sessions/:id/modes',
    {
      config: { access: ACCESS.operate },
      schema: {
        params,
        body: z.strictObject({
          permissionMode: z.enum(['strict', 'dev', 'networked', 'yolo']).optional(),
          approvalMode: z.enum(['manual', 'auto', 'full_access']).optional(),
          eternal: z.boolean().optional(),
        }),
      },
    },
    async (request, reply) => {
      const found = await gateway.sessions.find(request.params.id);
      if (found?.session.state !== 'open') return sendProblem(reply, NO_SESSION);
      const { permissionMode, approvalMode, eternal } = request.body;
      const next: Session = {
        ...found.session,
        permission_mode: permissionMode ?? found.session.permission_mode,
        approval_mode: approvalMode ?? found.session.approval_mode,
        eternal: eternal ?? found.session.eternal,
      };
      const above = gateway.policy.current.above(next);
      if (above) return sendProblem(reply, { code: ERROR_CODES.notOffered, message: above });
      const detail = { by: principalOf(request).name, ...request.body };
      const refused = await gateway.sessions.change(found, next, {
        type: 'session.changed',
        nowMs: gateway.now(),
        detail,
      });
      if (refused) return sendProblem(reply, { code: ERROR_CODES.changedMeanwhile, message: refused });
      if (next.eternal && !found.session.eternal) await replaySession(gateway, next.id);
      return sessionView(next);
    },
  );

  /** Deletes a session with its children: waiting calls are cancelled, running ones stopped, grants ended. */
  app.delete(
    '/v1/sessions/:id',
    {
      config: { access: ACCESS.operate },
      schema: { params, querystring: z.strictObject({ reason: z.string().max(2_000).default('') }) },
    },
    async (request, reply) => {
      const by = {
        name: principalOf(request).name,
        reason: maskText(request.query.reason) || 'the session was deleted',
      };
      const closed = await closeSession(gateway, request.params.id, by);
      return closed ? { id: request.params.id, state: 'closed' } : sendProblem(reply, NO_SESSION);
    },
  );
}
