import { FaultError } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';
import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import type { Authenticator } from '../access/authenticator.ts';
import { isFresh } from '../access/fresh.ts';
import { hasRole, type Principal, type Role, type Scope } from '../access/principal.ts';
import type { ClockWatch } from '../record/clock-watch.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';
import type { IsTooMany } from './request-limits.ts';

/** Who may use a route. */
export type AccessRule =
  | {
      readonly open: true;
      /** Asked by what watches the process, which no flood may make look dead. */
      readonly uncounted?: true;
      /** Answered while the clock is off: nothing of it depends on time. */
      readonly anyClock?: true;
    }
  | {
      readonly roles: readonly Role[];
      readonly scope: Scope;
      /** Needs a sign-in of the last minutes, or a token with the scope `admin`. */
      readonly sensitive?: true;
      /** Needs a person at a session; no token is enough. */
      readonly person?: true;
      /** Answered while the clock is off: whoever is let in can only take away. */
      readonly anyClock?: true;
    };

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: AccessRule;
  }
  interface FastifyRequest {
    principal: Principal | null;
  }
}

/** Rules that routes share. */
export const ACCESS = {
  open: { open: true },
  /** Also while the clock is off: nothing of it depends on time. */
  always: { open: true, anyClock: true },
  probe: { open: true, uncounted: true, anyClock: true },
  read: { roles: ['viewer', 'approver', 'operator', 'admin', 'auditor'], scope: 'read' },
  decide: { roles: ['approver', 'operator', 'admin'], scope: 'decide' },
  operate: { roles: ['operator', 'admin'], scope: 'operate' },
  enrol: { roles: ['operator', 'admin'], scope: 'operate', sensitive: true },
  /** A person who lets another decide for him. */
  delegate: { roles: ['approver', 'operator', 'admin'], scope: 'decide', sensitive: true, person: true },
  review: { roles: ['approver', 'operator', 'admin', 'auditor'], scope: 'decide' },
  exportAll: { roles: ['operator', 'admin', 'auditor'], scope: 'read' },
  ownTokens: { roles: ['viewer', 'approver', 'operator', 'admin', 'auditor'], scope: 'admin', sensitive: true },
  administer: { roles: ['admin'], scope: 'admin', sensitive: true },
} as const satisfies Record<string, AccessRule>;

/** Addresses of the desk's files, which say nothing about calls. */
const STATIC = /^\/\*?$/;

/** SECURITY: a route without a rule would be open to everybody, so that the gateway does not start with one. */
function demandRule({ url, method, config }: RouteOptions): void {
  if (config?.access || STATIC.test(url)) return;
  throw new FaultError(`route \`${method} ${url}\` has no access rule`, { code: ERROR_CODES.internal });
}

function refusalOf(
  rule: AccessRule,
  principal: Principal,
  nowMs: number,
): Parameters<typeof sendProblem>[1] | undefined {
  if ('open' in rule) return undefined;
  const forbidden = (message: string) => ({ code: ERROR_CODES.forbidden, message });
  if (!hasRole(principal, rule.roles)) return forbidden(`this needs one of the roles ${rule.roles.join(', ')}`);
  if (!principal.scopes.includes(rule.scope)) return forbidden(`the token lacks the scope \`${rule.scope}\``);
  const isPerson = principal.provenMs !== undefined;
  if (rule.person && !isPerson) return forbidden('this needs a person who signed in; a token is not enough');
  if (!rule.sensitive && !rule.person) return undefined;
  if (!isPerson) return principal.scopes.includes('admin') ? undefined : forbidden('the token lacks the scope `admin`');
  if (isFresh(principal.provenMs ?? 0, nowMs)) return undefined;
  return { code: ERROR_CODES.signInAgain, message: 'this needs a fresh sign-in; sign in again and repeat it' };
}

/** True while the route of a request that was let in is still open to `principal`. */
export function isAllowed(request: FastifyRequest, principal: Principal, nowMs: number): boolean {
  const rule = request.routeOptions.config.access;
  return rule !== undefined && refusalOf(rule, principal, nowMs) === undefined;
}

const TOO_MANY = {
  code: ERROR_CODES.rateLimited,
  message: 'too many requests; wait for the time in Retry-After',
} as const;

/** What tells who sends a request, and whether the time is known. */
export type Guard = {
  readonly authenticator: Authenticator;
  readonly clock: Pick<ClockWatch, 'isRight' | 'problem'>;
  readonly isTooMany: IsTooMany;
  readonly now: () => number;
};

async function enforceOpen(
  { authenticator, isTooMany }: Guard,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply | undefined> {
  const rule = request.routeOptions.config.access;
  if (rule && 'open' in rule && rule.uncounted) return undefined;
  return (await isTooMany(request, reply, authenticator.signedInSubject(request)))
    ? sendProblem(reply, TOO_MANY)
    : undefined;
}

async function enforce(guard: Guard, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> {
  const rule = request.routeOptions.config.access;
  // SECURITY: by a clock that is off, an expired token or link would be let in.
  if (rule && !rule.anyClock && !guard.clock.isRight()) return sendProblem(reply, guard.clock.problem());
  if (!rule || 'open' in rule) return enforceOpen(guard, request, reply);
  const found = await guard.authenticator.principalOf(request);
  if (await guard.isTooMany(request, reply, found.ok ? found.value.name : undefined))
    return sendProblem(reply, TOO_MANY);
  if (!found.ok) {
    if (found.error.retryAfter !== undefined) reply.header('retry-after', found.error.retryAfter);
    return sendProblem(reply, found.error);
  }
  const refusal = refusalOf(rule, found.value, guard.now());
  if (refusal) return sendProblem(reply, refusal);
  request.principal = found.value;
  return undefined;
}

/** Holds every route to the rule in its `config.access`. Must be added before the routes, whose list it returns. */
export function guardRoutes(app: Http, guard: Guard): readonly string[] {
  const routes: string[] = [];
  app.decorateRequest('principal', null);
  app.addHook('onRoute', (route) => {
    demandRule(route);
    if (!STATIC.test(route.url)) for (const method of [route.method].flat()) routes.push(`${method} ${route.url}`);
  });
  app.addHook('onRequest', (request, reply) => enforce(guard, request, reply));
  return routes;
}

/** Who sent a request of a route that is not open. */
export function principalOf(request: FastifyRequest): Principal {
  if (!request.principal) throw new FaultError('an open route asks for a principal', { code: ERROR_CODES.internal });
  return request.principal;
}
