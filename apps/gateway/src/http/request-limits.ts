import fastifyRateLimit from '@fastify/rate-limit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { sourceOf } from '../access/source-of.ts';
import type { Http } from './http.ts';

const WINDOW_MS = 60_000;
/** Requests a minute of one person, through whatever address. */
const PER_PERSON = 1_200;
/** Requests a minute of one address that show nobody's credentials, or wrong ones. */
const PER_ADDRESS = 2_400;
/** Counted at once of each kind; beyond it the one that was silent longest is forgotten. */
const MAX_COUNTED = 5_000;

/**
 * Counts a request by who sent it: a person by name, everybody else by address, so that a flood of strangers refuses no person
 * behind the same address. True when it is too many; the reply then has its `Retry-After`.
 */
export type IsTooMany = (request: FastifyRequest, reply: FastifyReply, person: string | undefined) => Promise<boolean>;

export async function countRequests(app: Http): Promise<IsTooMany> {
  await app.register(fastifyRateLimit, { global: false });
  const names = new WeakMap<FastifyRequest, string>();
  const window = { timeWindow: WINDOW_MS, cache: MAX_COUNTED };
  const byPerson = app.createRateLimit({
    ...window,
    max: PER_PERSON,
    keyGenerator: (request) => names.get(request) ?? '',
  });
  const byAddress = app.createRateLimit({ ...window, max: PER_ADDRESS, keyGenerator: ({ ip }) => sourceOf(ip) });
  return async (request, reply, person) => {
    if (person !== undefined) names.set(request, person);
    const count = await (person === undefined ? byAddress : byPerson)(request);
    if (count.isAllowed) return false;
    reply.header('x-ratelimit-limit', count.max);
    reply.header('x-ratelimit-remaining', count.remaining);
    reply.header('x-ratelimit-reset', count.ttlInSeconds);
    if (count.isExceeded) reply.header('retry-after', count.ttlInSeconds);
    return count.isExceeded;
  };
}
