import { ERROR_CODES } from '@countersign/protocol';
import { z } from 'zod';
import { visible } from '../access/principal.ts';
import type { Gateway } from '../context.ts';
import { coverText, type LiveGrant } from '../grants/grant.ts';
import { endGrants } from '../grants/revoke-grants.ts';
import { maskText } from '../masking.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';

const token = z.string().regex(/^[\w-]{1,64}$/);
const reason = z.string().max(2_000).default('');

/** A grant as people see it. */
async function grantView(gateway: Gateway, grant: LiveGrant) {
  return {
    id: grant.id,
    session: grant.session,
    agent: grant.agent,
    principal: grant.principal,
    host: grant.host,
    queue: grant.queue,
    reach: grant.covers.map(coverText),
    givenBy: grant.given_by,
    givenMs: grant.given_ms,
    expiresMs: grant.expires_ms,
    call: grant.call,
    uses: await gateway.audit.usesOf(grant.id),
    ...(grant.narrow ? { narrowed: grant.narrow } : {}),
  };
}

const matches = (grant: LiveGrant, { session, agent }: { session?: string | undefined; agent?: string | undefined }) =>
  (session === undefined || grant.session === session) && (agent === undefined || grant.agent === agent);

/** Routes of the ledger of grants. */
export function addGrantRoutes(app: Http, gateway: Gateway): void {
  const filter = z.strictObject({ session: token.optional(), agent: token.optional() });

  /** Live grants of every host and agent that the caller may see. */
  app.get('/v1/grants', { config: { access: ACCESS.read }, schema: { querystring: filter } }, async (request) => {
    const principal = principalOf(request);
    const seen = gateway.grants
      .all()
      .filter((grant) => visible(principal, grant, gateway.queues) && matches(grant, request.query));
    return { grants: await Promise.all(seen.map((grant) => grantView(gateway, grant))) };
  });

  /** Ends one grant. */
  app.delete(
    '/v1/grants/:id',
    {
      config: { access: ACCESS.decide },
      schema: { params: z.object({ id: token }), querystring: z.strictObject({ reason }) },
    },
    async (request, reply) => {
      const principal = principalOf(request);
      const found = gateway.grants.all().find(({ id }) => id === request.params.id);
      if (!found || !visible(principal, found, gateway.queues))
        return sendProblem(reply, { code: ERROR_CODES.notFound, message: 'no such grant' });
      await endGrants(gateway, [found], {
        type: 'revoked',
        by: principal.name,
        reason: maskText(request.query.reason),
      });
      return { revoked: [found.id] };
    },
  );

  /** Ends every grant of a session, of an agent, or, with `all=true`, every one that the caller may see. */
  app.delete(
    '/v1/grants',
    {
      config: { access: ACCESS.decide },
      schema: { querystring: filter.extend({ all: z.literal('true').optional(), reason }) },
    },
    async (request, reply) => {
      const { session, agent, all } = request.query;
      if (session === undefined && agent === undefined && all === undefined)
        return sendProblem(reply, {
          code: ERROR_CODES.invalidRequest,
          message: 'name a session, an agent, or `all=true`',
        });
      const principal = principalOf(request);
      const found = gateway.grants
        .all()
        .filter((grant) => visible(principal, grant, gateway.queues) && matches(grant, request.query));
      const end = { type: 'revoked', by: principal.name, reason: maskText(request.query.reason) } as const;
      return { revoked: (await endGrants(gateway, found, end)).map(({ id }) => id) };
    },
  );
}
