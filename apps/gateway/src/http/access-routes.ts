import { ERROR_CODES } from '@countersign/protocol';
import { z } from 'zod';
import type { Access } from '../access/access.ts';
import { recordAct } from '../access/admin-log.ts';
import { SESSION_COOKIE } from '../access/authenticator.ts';
import { groupsSchema, hasRole, nameSchema, type Principal, rolesSchema, SCOPES } from '../access/principal.ts';
import type { Gateway } from '../context.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';

const DAY_MS = 86_400_000;
const MAX_TOKEN_DAYS = 366;
const COOKIE_SECONDS = 43_200;
/** Whom a login link is for when the request names nobody. */
const LOCAL_APPROVER = 'local-approver';

/** Options of the cookie of a person's session. */
export const SESSION_COOKIE_OPTIONS = {
  httpOnly: true,
  sameSite: 'strict',
  path: '/',
  maxAge: COOKIE_SECONDS,
  secure: 'auto',
} as const;

const isAdmin = (principal: Principal): boolean => hasRole(principal, ['admin']);

/** Why `principal` may not make this token; undefined when he may. */
function tokenRefusal(principal: Principal, wanted: Pick<Principal, 'roles' | 'groups'> & { subject: string }) {
  if (isAdmin(principal)) return undefined;
  if (wanted.subject !== principal.name) return 'only an admin makes tokens for somebody else';
  const role = wanted.roles.find((name) => !principal.roles.includes(name));
  if (role !== undefined) return `you do not hold the role \`${role}\``;
  const group = wanted.groups.find((name) => !principal.groups.includes(name));
  return group === undefined ? undefined : `you are not in the group \`${group}\``;
}

function tokenRoutes(app: Http, gateway: Gateway, { tokens }: Access): void {
  /** Makes an API token. Its text is in this answer only. */
  app.post(
    '/v1/tokens',
    {
      config: { access: ACCESS.ownTokens },
      schema: {
        body: z.strictObject({
          label: z.string().min(1).max(100),
          subject: nameSchema.optional(),
          roles: rolesSchema,
          groups: groupsSchema.default([]),
          scopes: z.array(z.enum(SCOPES)).min(1).max(SCOPES.length),
          days: z.int().min(1).max(MAX_TOKEN_DAYS),
        }),
      },
    },
    async (request, reply) => {
      const principal = principalOf(request);
      const { label, roles, groups, scopes, days } = request.body;
      const subject = request.body.subject ?? principal.name;
      const refusal = tokenRefusal(principal, { subject, roles, groups });
      if (refusal !== undefined) return sendProblem(reply, { code: ERROR_CODES.forbidden, message: refusal });
      if (await gateway.members.find('agent', subject))
        return sendProblem(reply, { code: ERROR_CODES.forbidden, message: 'an agent gets no token; it never decides' });
      const expiresMs = gateway.now() + days * DAY_MS;
      const made = await tokens.create({ label, subject, roles, groups, scopes, expiresMs }, principal.name);
      return reply
        .code(201)
        .header('cache-control', 'no-store')
        .send({ ...made.token, text: made.text });
    },
  );

  /** Tokens of the caller; of everybody for an admin or auditor. Without what could be used. */
  app.get('/v1/tokens', { config: { access: ACCESS.read } }, async (request) => {
    const principal = principalOf(request);
    const all = hasRole(principal, ['admin', 'auditor']);
    return { tokens: await tokens.list(all ? undefined : principal.name) };
  });

  /** Revokes a token for good. */
  app.delete(
    '/v1/tokens/:id',
    {
      config: { access: ACCESS.ownTokens },
      schema: { params: z.object({ id: z.string().regex(/^tok_[0-9a-f]{32}$/) }) },
    },
    async (request, reply) => {
      const principal = principalOf(request);
      const mine = isAdmin(principal) ? undefined : principal.name;
      const revoked = await tokens.revoke(request.params.id, principal.name, mine);
      return revoked
        ? { id: request.params.id }
        : sendProblem(reply, { code: ERROR_CODES.notFound, message: 'no such token' });
    },
  );
}

function peopleRoutes(app: Http, { directory }: Access): void {
  /** People who may sign in. */
  app.get('/v1/people', { config: { access: ACCESS.exportAll } }, async () => ({ people: await directory.list() }));

  /** Adds a person, or sets roles, groups and state. */
  app.put(
    '/v1/people/:subject',
    {
      config: { access: ACCESS.administer },
      schema: {
        params: z.object({ subject: nameSchema }),
        body: z.strictObject({
          roles: rolesSchema,
          groups: groupsSchema.default([]),
          active: z.boolean().default(true),
        }),
      },
    },
    async (request, reply) => {
      const { subject } = request.params;
      // SECURITY: two names of one person would count as two people.
      const other = await directory.sameButForCase(subject);
      if (other !== undefined)
        return sendProblem(reply, {
          code: ERROR_CODES.invalidRequest,
          message: `\`${other}\` is known; a name that differs in case only would be the same person twice`,
        });
      await directory.put({ subject, source: 'local', ...request.body }, principalOf(request).name);
      return { subject };
    },
  );
}

function signInRoutes(app: Http, gateway: Gateway, { authenticator, signIn, hardened }: Access): void {
  /** Who is signed in, with the CSRF token of a cookie session. */
  app.get('/v1/me', { config: { access: ACCESS.read } }, async (request) => {
    const { name, roles, groups, method, provenMs, csrf } = principalOf(request);
    return { name, role: roles[0], roles, groups, method, ...(csrf === undefined ? {} : { csrf, provenMs }) };
  });

  /** Makes a one-time login link for a local person. The token is in this answer only. */
  app.post(
    '/v1/login-links',
    {
      config: { access: ACCESS.enrol },
      schema: { body: z.strictObject({ subject: nameSchema.default(LOCAL_APPROVER) }) },
    },
    async (request, reply) => {
      const { subject } = request.body;
      const principal = principalOf(request);
      const refuse = (message: string) => sendProblem(reply, { code: ERROR_CODES.forbidden, message });
      if (hardened()) return refuse('hardened mode takes no token in an address; sign in with the identity provider');
      // SECURITY: a link lets its holder act as that person.
      if (subject !== LOCAL_APPROVER && !isAdmin(principal))
        return refuse('only an admin makes links for other people');
      if (!(await authenticator.person(subject)))
        return sendProblem(reply, { code: ERROR_CODES.notFound, message: 'no such person' });
      await recordAct(
        gateway.audit,
        { what: 'login_link.created', by: principal.name, detail: { subject } },
        gateway.now(),
      );
      return reply.header('cache-control', 'no-store').send({ path: `/login?token=${signIn.newLink(subject)}` });
    },
  );

  /** Redeems a login link: sets the session cookie and shows the desk. */
  app.get(
    '/login',
    { config: { access: ACCESS.open }, schema: { querystring: z.object({ token: z.string().max(200) }) } },
    async (request, reply) => {
      const wait = authenticator.waitSeconds(request);
      if (wait > 0)
        return sendProblem(reply.header('retry-after', wait), {
          code: ERROR_CODES.rateLimited,
          message: `wrong credentials came from your address; wait ${wait} s`,
        });
      const cookie = hardened() ? undefined : signIn.redeem(request.query.token);
      if (cookie === undefined) {
        authenticator.failed(request);
        return sendProblem(reply, {
          code: ERROR_CODES.unauthenticated,
          message: 'this link was used or is too old; make a new one',
        });
      }
      return reply.setCookie(SESSION_COOKIE, cookie, SESSION_COOKIE_OPTIONS).redirect('/');
    },
  );

  /** Ends the caller's session. */
  app.post('/v1/logout', { config: { access: ACCESS.read } }, async (request, reply) => {
    const cookie = request.cookies[SESSION_COOKIE];
    if (cookie !== undefined) signIn.close(cookie);
    return reply.clearCookie(SESSION_COOKIE, { path: '/' }).send({});
  });
}

/** Routes of sign-in, people and tokens. */
export function addAccessRoutes(app: Http, gateway: Gateway): void {
  const { access } = gateway;
  signInRoutes(app, gateway, access);
  tokenRoutes(app, gateway, access);
  peopleRoutes(app, access);
}
