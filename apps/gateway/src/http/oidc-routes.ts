import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import { SESSION_COOKIE } from '../access/authenticator.ts';
import { type OidcSignIn, safeReturn } from '../access/oidc-sign-in.ts';
import type { SignIn } from '../access/sign-in.ts';
import { ACCESS } from './access-hook.ts';
import { SESSION_COOKIE_OPTIONS } from './access-routes.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';

/** Binds a sign-in to the browser that began it. `lax`, because the browser comes back from another site. */
const STATE_COOKIE = 'countersign_oidc';
const STATE_OPTIONS = { httpOnly: true, sameSite: 'lax', path: '/v1/oidc', maxAge: 600, secure: 'auto' } as const;

/** Routes of the sign-in with the identity provider. */
export function addOidcRoutes(app: Http, oidc: OidcSignIn, signIn: SignIn): void {
  /** Leads to the identity provider; with `fresh=1` it asks the person again, for a sensitive act. */
  app.get(
    '/v1/oidc/login',
    {
      config: { access: ACCESS.open },
      schema: { querystring: z.object({ fresh: z.literal('1').optional(), to: z.string().max(500).optional() }) },
    },
    async (request, reply): Promise<FastifyReply> => {
      const begun = await oidc.begin({ fresh: request.query.fresh === '1', returnTo: safeReturn(request.query.to) });
      if (!begun.ok) return sendProblem(reply, begun.error);
      const { url, state } = begun.value;
      return reply.header('cache-control', 'no-store').setCookie(STATE_COOKIE, state, STATE_OPTIONS).redirect(url.href);
    },
  );

  /** Where the identity provider sends the browser back to: sets the session cookie and leads on. */
  app.get('/v1/oidc/callback', { config: { access: ACCESS.open } }, async (request, reply): Promise<FastifyReply> => {
    const query = request.url.split('?').slice(1).join('?').slice(0, 8_000);
    const finished = await oidc.finish(query, request.cookies[STATE_COOKIE]);
    reply.header('cache-control', 'no-store').clearCookie(STATE_COOKIE, { path: '/v1/oidc' });
    if (!finished.ok) return sendProblem(reply, finished.error);
    const { subject, provenMs, returnTo } = finished.value;
    // Never the old cookie value: a session that somebody planted must not become this person's.
    const before = request.cookies[SESSION_COOKIE];
    if (before !== undefined) signIn.close(before);
    const cookie = signIn.open({ subject, method: 'oidc', provenMs });
    return reply.setCookie(SESSION_COOKIE, cookie, SESSION_COOKIE_OPTIONS).redirect(returnTo);
  });
}

/** The route that tells which ways to sign in there are. */
export function addSignInWays(app: Http, ways: { readonly oidc: boolean; readonly hardened: () => boolean }): void {
  /** Ways to sign in: `oidc`, with the identity provider at `/v1/oidc/login`; `links`, with a one-time link. */
  app.get('/v1/sign-in', { config: { access: ACCESS.always } }, async () => ({
    oidc: ways.oidc,
    links: !ways.hardened(),
  }));
}
