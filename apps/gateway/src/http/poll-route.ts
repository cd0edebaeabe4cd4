import { ERROR_CODES } from '@countersign/protocol';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { type Principal, visible } from '../access/principal.ts';
import type { Gateway } from '../context.ts';
import type { FramedEvent } from '../event-hub.ts';
import { ACCESS, isAllowed, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';
import { decidesFor } from './streams.ts';

/** Proxies in between close what is silent for half a minute. */
const MAX_WAIT_S = 25;
const MAX_EVENTS = 500;

type Page = { readonly events: readonly object[]; readonly next: number; readonly reset: boolean };

/** What a reader has missed after `after`, and from where he goes on. */
function pageOf(gateway: Gateway, principal: Principal, after: number): Page {
  const missed = after === gateway.hub.lastId ? [] : gateway.hub.since(after);
  if (missed === undefined) return { events: [], next: gateway.hub.lastId, reset: true };
  const seen: FramedEvent[] = [];
  let next = after;
  for (const event of missed) {
    if (seen.length === MAX_EVENTS) break;
    next = event.id;
    if (visible(principal, event, gateway.queues)) seen.push(event);
  }
  const events = seen.map(({ id, name, data }) => ({ id, event: name, data: JSON.parse(data) as unknown }));
  return { events, next, reset: false };
}

/** Resolves when something that the reader may see happened, the feed broke, he went away, or `waitMs` passed; false when too many wait. */
function somethingFor(
  gateway: Gateway,
  request: FastifyRequest,
  principal: Principal,
  waitMs: number,
): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const unfollow = gateway.hub.follow(
    (event) => {
      if (event === undefined || visible(principal, event, gateway.queues)) resolve(true);
    },
    decidesFor(gateway, () => principal),
  );
  if (!unfollow) return Promise.resolve(false);
  const done = () => resolve(true);
  const timer = setTimeout(done, waitMs);
  request.raw.socket.once('close', done);
  return promise.finally(() => {
    clearTimeout(timer);
    request.raw.socket.off('close', done);
    unfollow();
  });
}

/** Adds the long poll, for clients that cannot hold a stream open. */
export function addPollRoute(app: Http, gateway: Gateway): void {
  /**
   * The events of `GET /v1/events` without a stream: those after `after`, or, when there is none, the next that comes within
   * `wait` seconds. `next` is the `after` of the next request; `reset` says that events were lost: list again. Without `after`
   * it answers at once with the place to go on from. Holds at most 500 events; 503 when too many follow.
   */
  app.get(
    '/v1/events/poll',
    {
      config: { access: ACCESS.read },
      schema: {
        querystring: z.strictObject({
          after: z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER).optional(),
          wait: z.coerce.number().int().min(0).max(MAX_WAIT_S).default(0),
        }),
      },
    },
    async (request, reply) => {
      const { after, wait } = request.query;
      reply.header('cache-control', 'no-store');
      const first = principalOf(request);
      if (after === undefined) return { events: [], next: gateway.hub.lastId, reset: false };
      const page = pageOf(gateway, first, after);
      if (page.events.length > 0 || page.reset || wait === 0) return page;
      if (!(await somethingFor(gateway, request, first, wait * 1_000)))
        return sendProblem(reply, { code: ERROR_CODES.auditBusy, message: 'too many follow the events; ask later' });
      // SECURITY: a token, session or role that ended while the reader waited shows him nothing more.
      const now = await gateway.access.authenticator.stillPrincipalOf(request).catch(() => undefined);
      if (now && isAllowed(request, now, gateway.now())) return pageOf(gateway, now, page.next);
      return sendProblem(reply, { code: ERROR_CODES.unauthenticated, message: 'the credential counts no more' });
    },
  );
}
