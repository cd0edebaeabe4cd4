import { ERROR_CODES } from '@countersign/protocol';
import { z } from 'zod';
import type { Gateway } from '../context.ts';
import { endPause, stateRequest } from '../sessions/paused-turn.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';

const params = z.object({ id: z.string().regex(/^[\w-]{1,64}$/) });
const resumeBody = z.strictObject({ reason: z.string().trim().min(1, 'say why').max(1_000) });
const requestBody = z.strictObject({ text: z.string().trim().min(1, 'write the request').max(20_000) });
const NO_SESSION = { code: ERROR_CODES.notFound, message: 'no such open session' };
const NOT_PAUSED = { code: ERROR_CODES.notFound, message: 'no such session is paused' };

/** Routes about sessions that the Guardian reviews: turns that it paused, and what a person says a session is for. */
export function addPausedTurnRoutes(app: Http, gateway: Gateway): void {
  /** Open sessions whose turn is paused after repeated denials; every call of them waits for a person. */
  app.get('/v1/guardian/paused', { config: { access: ACCESS.exportAll } }, async () => {
    const sessions = await gateway.sessions.paused();
    return {
      sessions: sessions.map(({ id, agent, host, project, paused }) => ({
        ...{ id, agent, host, project },
        call: paused?.call ?? '',
        pausedMs: paused?.at_ms ?? 0,
      })),
    };
  });

  /** Lets a paused turn go on, because a person looked; for a reason. Answering one of its calls does the same. */
  app.post(
    '/v1/sessions/:id/resume',
    { config: { access: ACCESS.operate }, schema: { params, body: resumeBody } },
    async (request, reply) => {
      const by = { name: principalOf(request).name, reason: request.body.reason };
      const ended = await endPause(gateway, request.params.id, by);
      return ended ? { id: request.params.id, paused: false } : sendProblem(reply, NOT_PAUSED);
    },
  );

  /** States what a session is for in a person's words; the Guardian is told them as such, instead of the agent's own. */
  app.post(
    '/v1/sessions/:id/request',
    {
      config: { access: ACCESS.operate },
      schema: { params, body: requestBody },
    },
    async (request, reply) => {
      const by = principalOf(request).name;
      const stated = await stateRequest(gateway, request.params.id, { by, text: request.body.text });
      return stated ? { id: request.params.id, requestBy: by } : sendProblem(reply, NO_SESSION);
    },
  );
}
