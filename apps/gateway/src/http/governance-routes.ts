import { ERROR_CODES } from '@countersign/protocol';
import { z } from 'zod';
import { groupsSchema, hasRole, nameSchema, visible } from '../access/principal.ts';
import type { Gateway } from '../context.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';

const DAY_MS = 86_400_000;
const MAX_DAYS = 30;

function delegationRoutes(app: Http, gateway: Gateway): void {
  const { delegations } = gateway.governance;

  /** Delegations that hold now: the caller's own, and all of them for an admin or auditor. */
  app.get('/v1/delegations', { config: { access: ACCESS.read } }, async (request) => {
    const principal = principalOf(request);
    const all = hasRole(principal, ['admin', 'auditor']);
    const live = await delegations.live();
    return {
      delegations: live.filter(({ giver, receiver }) => all || giver === principal.name || receiver === principal.name),
    };
  });

  /** Lets somebody else decide for the caller in some of his groups, for a time. */
  app.post(
    '/v1/delegations',
    {
      config: { access: ACCESS.delegate },
      schema: {
        body: z.strictObject({
          receiver: nameSchema,
          groups: groupsSchema.min(1),
          days: z.int().min(1).max(MAX_DAYS),
        }),
      },
    },
    async (request, reply) => {
      const principal = principalOf(request);
      const { receiver, groups, days } = request.body;
      const refuse = (message: string) => sendProblem(reply, { code: ERROR_CODES.forbidden, message });
      if (receiver === principal.name) return refuse('you decide for yourself already');
      // SECURITY: own groups only, so that nothing lent is passed on.
      const foreign = groups.find((group) => !principal.groups.includes(group));
      if (foreign !== undefined) return refuse(`you are not in the group \`${foreign}\``);
      const until_ms = gateway.now() + days * DAY_MS;
      return reply.code(201).send(await delegations.give({ giver: principal.name, receiver, groups, until_ms }));
    },
  );

  /** Ends a delegation of the caller; any of them for an admin. */
  app.delete(
    '/v1/delegations/:id',
    { config: { access: ACCESS.decide }, schema: { params: z.object({ id: z.string().regex(/^dlg_[0-9a-f]{32}$/) }) } },
    async (request, reply) => {
      const principal = principalOf(request);
      const ended = await delegations.revoke(request.params.id, principal.name, hasRole(principal, ['admin']));
      return ended
        ? { id: request.params.id }
        : sendProblem(reply, { code: ERROR_CODES.notFound, message: 'no such delegation of yours' });
    },
  );
}

function reviewRoutes(app: Http, gateway: Gateway): void {
  const { reviews } = gateway.governance;

  /** Emergency approvals and their reviews. */
  app.get('/v1/reviews', { config: { access: ACCESS.read } }, async (request) => {
    const principal = principalOf(request);
    return { reviews: (await reviews.list()).filter((review) => visible(principal, review, gateway.queues)) };
  });

  /** Reviews an emergency approval of somebody else. */
  app.post(
    '/v1/reviews/:call',
    {
      config: { access: ACCESS.review },
      schema: {
        params: z.object({ call: z.string().regex(/^[\w-]{1,64}$/) }),
        body: z.strictObject({ verdict: z.enum(['justified', 'unjustified']), note: z.string().min(1).max(2_000) }),
      },
    },
    async (request, reply) => {
      const principal = principalOf(request);
      const known = await reviews.find(request.params.call);
      if (!known || !visible(principal, known.value, gateway.queues))
        return sendProblem(reply, { code: ERROR_CODES.notFound, message: 'no such emergency approval' });
      if (known.value.by === principal.name)
        return sendProblem(reply, { code: ERROR_CODES.forbidden, message: 'somebody else has to review it' });
      if (known.value.reviewed_by !== null)
        return sendProblem(reply, {
          code: ERROR_CODES.alreadyDecided,
          message: 'it was reviewed already',
          winner: known.value.reviewed_by,
        });
      const { verdict, note } = request.body;
      await reviews.close(known, principal.name, verdict, note);
      return { call: request.params.call, verdict };
    },
  );
}

/** Routes of delegations and emergency approvals. */
export function addGovernanceRoutes(app: Http, gateway: Gateway): void {
  delegationRoutes(app, gateway);
  reviewRoutes(app, gateway);
}
