import { ERROR_CODES } from '@countersign/protocol';
import { z } from 'zod';
import { visible } from '../access/principal.ts';
import { requestRollback } from '../calls/request-rollback.ts';
import type { Gateway } from '../context.ts';
import { listChanges, markReviewed, readChange } from '../record/file-changes.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';
import { visibleCall } from './visible-call.ts';

const callId = z.object({ id: z.string().regex(/^[\w-]{1,64}$/) });
const NO_CHANGE = { code: ERROR_CODES.notFound, message: 'no such call, or it changed no file' };

/** Changes of files that agents made: list, show, mark as reviewed, roll back. */
export function addChangeRoutes(app: Http, gateway: Gateway): void {
  /** Changes of files, newest first. */
  app.get(
    '/v1/changes',
    {
      config: { access: ACCESS.read },
      schema: {
        querystring: z.object({
          state: z.enum(['unreviewed', 'reviewed', 'rolled_back']).optional(),
          limit: z.coerce.number().int().min(1).max(500).default(100),
        }),
      },
    },
    async (request) => {
      const principal = principalOf(request);
      const { state, limit } = request.query;
      const mayKnow = (call: { queue: string }) => visible(principal, call, gateway.queues);
      return { changes: await listChanges(gateway, mayKnow, { limit, ...(state ? { state } : {}) }) };
    },
  );

  /** The change that a call made, with its diff. */
  app.get(
    '/v1/calls/:id/change',
    { config: { access: ACCESS.read }, schema: { params: callId } },
    async (request, reply) => {
      const record = await visibleCall(gateway, request);
      return (
        (record && (await readChange(gateway, record, principalOf(request).name))) ?? sendProblem(reply, NO_CHANGE)
      );
    },
  );

  /** Marks the change of a call as reviewed. */
  app.post(
    '/v1/calls/:id/change/review',
    { config: { access: ACCESS.decide }, schema: { params: callId, body: z.strictObject({}) } },
    async (request, reply) => {
      const record = await visibleCall(gateway, request);
      if (!record || record.fileChanges.length === 0) return sendProblem(reply, NO_CHANGE);
      const refused = await markReviewed(gateway, record, principalOf(request).name);
      if (refused) return sendProblem(reply, { code: ERROR_CODES.auditUnavailable, message: refused });
      return { state: 'reviewed' };
    },
  );

  /** Submits the rollback of the change; the answer names the call that is decided on. */
  app.post(
    '/v1/calls/:id/change/rollback',
    {
      config: { access: ACCESS.decide },
      schema: { params: callId, body: z.strictObject({ force: z.boolean().default(false) }) },
    },
    async (request, reply) => {
      const record = await visibleCall(gateway, request);
      if (!record || record.fileChanges.length === 0) return sendProblem(reply, NO_CHANGE);
      const by = principalOf(request).name;
      const requested = await requestRollback(gateway, record, { by, force: request.body.force });
      return requested.ok ? requested.value : sendProblem(reply, requested.error);
    },
  );
}
