import { ERROR_CODES } from '@countersign/protocol';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { visible } from '../access/principal.ts';
import type { Gateway } from '../context.ts';
import { answerRequest, showRequest } from '../requests/answer-request.ts';
import type { PermissionRequest } from '../requests/request.ts';
import { requestSummary } from '../requests/tell-request.ts';
import { updateNow } from '../requests/update-now.ts';
import { updatesSchema } from '../requests/updates.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';

const params = z.object({ id: z.string().regex(/^[\w-]{1,64}$/) });
const digest = z.string().regex(/^[0-9a-f]{64}$/);
const reason = z.string().max(2_000);
const STATES = ['waiting', 'approved', 'denied', 'expired', 'cancelled'] as const;
const MAX_LISTED = 500;
const NO_REQUEST = { code: ERROR_CODES.notFound, message: 'no such request' };

/** SECURITY: a request of another queue is not there. */
async function visibleRequest(gateway: Gateway, request: FastifyRequest): Promise<PermissionRequest | undefined> {
  const { id } = request.params as { id: string };
  const found = (await gateway.requests.find(id))?.value;
  return found && visible(principalOf(request), found, gateway.queues) ? found : undefined;
}

/** Routes of what agents ask people for: permission updates and folders. */
export function addRequestRoutes(app: Http, gateway: Gateway): void {
  /** The newest 500 permission requests that the caller may know of; masked text. */
  app.get(
    '/v1/requests',
    { config: { access: ACCESS.read }, schema: { querystring: z.object({ state: z.enum(STATES).optional() }) } },
    async (request) => {
      const { state } = request.query;
      const seen = (await gateway.requests.all()).filter(
        (one) => (state === undefined || one.state === state) && visible(principalOf(request), one, gateway.queues),
      );
      return { requests: seen.slice(0, MAX_LISTED).map(requestSummary) };
    },
  );

  /** One request with what an approval would change now (`says`) and the digest that the answer names; `problem` when it cannot be approved now. */
  app.get('/v1/requests/:id', { config: { access: ACCESS.read }, schema: { params } }, async (request, reply) => {
    const found = await visibleRequest(gateway, request);
    if (!found) return sendProblem(reply, NO_REQUEST);
    const shown = found.state === 'waiting' ? await showRequest(gateway, found) : undefined;
    if (!shown) return requestSummary(found);
    return { ...requestSummary(found), ...(shown.ok ? shown.value : { says: [], problem: shown.error.message }) };
  });

  /** Puts what was asked for in force, for later calls only. 409 when somebody was first (`winner`) or `digest` is out of date; never by the person for whom the agent acts. */
  app.post(
    '/v1/requests/:id/approve',
    {
      config: { access: ACCESS.enrol },
      schema: { params, body: z.strictObject({ digest, reason: reason.default('') }) },
    },
    async (request, reply) => {
      if (!(await visibleRequest(gateway, request))) return sendProblem(reply, NO_REQUEST);
      const answer = { answer: 'approve', ...request.body } as const;
      const done = await answerRequest(gateway, request.params.id, answer, principalOf(request).name);
      return done.ok ? requestSummary(done.value) : sendProblem(reply, done.error);
    },
  );

  /** Refuses what was asked for; the reason reaches the agent. */
  app.post(
    '/v1/requests/:id/deny',
    { config: { access: ACCESS.decide }, schema: { params, body: z.strictObject({ reason: reason.default('') }) } },
    async (request, reply) => {
      if (!(await visibleRequest(gateway, request))) return sendProblem(reply, NO_REQUEST);
      const answer = { answer: 'deny', digest: '', reason: request.body.reason } as const;
      const done = await answerRequest(gateway, request.params.id, answer, principalOf(request).name);
      return done.ok ? requestSummary(done.value) : sendProblem(reply, done.error);
    },
  );

  /** Makes permission updates of a session take effect at once, for later calls; with `dry` only says what would change. */
  app.post(
    '/v1/sessions/:id/updates',
    {
      config: { access: ACCESS.enrol },
      schema: { params, body: z.strictObject({ updates: updatesSchema, dry: z.boolean().default(false) }) },
    },
    async (request, reply) => {
      const { updates, dry } = request.body;
      const done = await updateNow(gateway, request.params.id, updates, { by: principalOf(request).name, dry });
      return done.ok ? done.value : sendProblem(reply, done.error);
    },
  );
}
