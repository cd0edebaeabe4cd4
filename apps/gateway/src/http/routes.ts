import type { IncomingMessage, ServerResponse } from 'node:http';
import { CallPayload, ERROR_CODES, type ErrorCode } from '@countersign/protocol';
import type { FastifyBaseLogger, FastifyInstance, FastifyReply, FastifyRequest, RawServerDefault } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { ensureWorkConsumer } from '../broker/streams.ts';
import { callSummary } from '../calls/announce.ts';
import { answerCall } from '../calls/answer.ts';
import { cancelCall } from '../calls/cancel.ts';
import { readView } from '../calls/view.ts';
import type { Role } from '../config.ts';
import type { Gateway } from '../context.ts';
import { memberSchema } from '../record/members.ts';
import { type Principal, SESSION_COOKIE, type Sign } from './auth.ts';
import { sendProblem } from './problem.ts';

export type Http = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  ZodTypeProvider
>;

const DECIDERS: readonly Role[] = ['approver', 'operator', 'admin'];
const OPERATORS: readonly Role[] = ['operator', 'admin'];
const READERS: readonly Role[] = ['viewer', 'approver', 'operator', 'admin', 'auditor'];

/** Answers 401 or 403 and returns undefined unless the request comes from one of `roles`. */
export function authorise(
  sign: Sign,
  request: FastifyRequest,
  reply: FastifyReply,
  roles: readonly Role[],
): Principal | undefined {
  const principal = sign.principalOf(request);
  if (!principal) {
    sendProblem(reply, {
      code: ERROR_CODES.unauthenticated,
      message: 'sign in, or send a valid token in the Authorization header',
    });
    return undefined;
  }
  if (!roles.includes(principal.role)) {
    sendProblem(reply, { code: ERROR_CODES.forbidden, message: `this needs one of the roles ${roles.join(', ')}` });
    return undefined;
  }
  return principal;
}

const callId = z.object({ id: z.string().regex(/^[\w-]{1,64}$/) });

function readRoutes(app: Http, gateway: Gateway, sign: Sign): void {
  /** Who is signed in, with the CSRF token of a cookie session. */
  app.get('/v1/me', async (request, reply) => authorise(sign, request, reply, READERS) ?? reply);

  /** Calls by state, newest first; masked text. */
  app.get(
    '/v1/calls',
    {
      schema: {
        querystring: z.object({
          state: z.string().max(200).optional(),
          limit: z.coerce.number().int().min(1).max(500).default(100),
        }),
      },
    },
    async (request, reply) => {
      if (!authorise(sign, request, reply, READERS)) return reply;
      const states = request.query.state?.split(',') ?? [];
      const page = await gateway.audit.listCalls(states, request.query.limit);
      return { calls: page.calls.map(callSummary), ...(page.nextPageToken === '' ? {} : { next: page.nextPageToken }) };
    },
  );

  /** One call with its exact arguments and the view that a decision refers to. */
  app.get('/v1/calls/:id', { schema: { params: callId } }, async (request, reply) => {
    if (!authorise(sign, request, reply, READERS)) return reply;
    const record = await gateway.audit.getCall('', request.params.id);
    if (!record) return sendProblem(reply, { code: ERROR_CODES.notFound, message: 'no such call' });
    const opened = await gateway.control.open(record.sealedPayload, record.callId).catch(() => undefined);
    const view = readView(record.view);
    return {
      ...callSummary(record),
      arguments: opened ? new TextDecoder().decode(CallPayload.decode(opened).arguments) : '',
      view: view
        ? {
            reasons: view.reasons,
            profile: view.profile,
            ...(view.realPath ? { realPath: view.realPath } : {}),
            ...(view.diff ? { diff: view.diff } : {}),
          }
        : {},
      viewDigest: Buffer.from(record.viewDigest).toString('hex'),
    };
  });

  /** Enrolled hosts with health. */
  app.get('/v1/hosts', async (request, reply) => {
    if (!authorise(sign, request, reply, READERS)) return reply;
    await gateway.members.refresh();
    return { hosts: gateway.hosts.list(gateway.now()) };
  });
}

function changeRoutes(app: Http, gateway: Gateway, sign: Sign): void {
  /** One person's answer. 409 when somebody else was first (with `winner`) or the view is out of date. */
  app.post(
    '/v1/calls/:id/decision',
    {
      schema: {
        params: callId,
        body: z.strictObject({
          answer: z.enum(['approve', 'deny']),
          reason: z.string().max(2_000).default(''),
          viewDigest: z.string().regex(/^[0-9a-f]{64}$/),
        }),
      },
    },
    async (request, reply) => {
      const principal = authorise(sign, request, reply, DECIDERS);
      if (!principal) return reply;
      const answered = await answerCall(gateway, request.params.id, principal, request.body);
      return answered.ok ? answered.value : sendProblem(reply, answered.error);
    },
  );

  /** Cancels a waiting call or asks the host to stop a running one. */
  app.post(
    '/v1/calls/:id/cancel',
    { schema: { params: callId, body: z.strictObject({ reason: z.string().max(2_000).default('') }) } },
    async (request, reply) => {
      const principal = authorise(sign, request, reply, DECIDERS);
      if (!principal) return reply;
      const outcome = await cancelCall(gateway, '', request.params.id, principal.name, request.body.reason);
      if (outcome === 'not_found') return sendProblem(reply, { code: ERROR_CODES.notFound, message: 'no such call' });
      if (outcome === 'ended')
        return sendProblem(reply, { code: ERROR_CODES.alreadyDecided, message: 'call has ended' });
      return { outcome };
    },
  );

  /** Enrols an agent or host; repeating it with the same facts changes nothing. */
  app.post('/v1/members', { schema: { body: memberSchema } }, async (request, reply) => {
    const principal = authorise(sign, request, reply, OPERATORS);
    if (!principal) return reply;
    const { refused } = await gateway.members.enrol(request.body, principal.name, gateway.now());
    if (refused) return sendProblem(reply, { code: ERROR_CODES.auditUnavailable, message: refused });
    if (request.body.role === 'host') await ensureWorkConsumer(gateway.broker.manager, request.body.id);
    return { id: request.body.id };
  });

  /** Makes a one-time login link for the local approver. The token is in this answer only. */
  app.post('/v1/login-links', async (request, reply) => {
    if (!authorise(sign, request, reply, OPERATORS)) return reply;
    return { path: `/login?token=${sign.newLink({ name: 'local-approver', role: 'approver' })}` };
  });

  /** Redeems a login link: sets the session cookie and shows the desk. */
  app.get('/login', { schema: { querystring: z.object({ token: z.string().max(200) }) } }, async (request, reply) => {
    const cookie = sign.redeem(request.query.token);
    if (cookie === undefined)
      return sendProblem(reply, {
        code: ERROR_CODES.unauthenticated,
        message: 'this link was used or is too old; make a new one',
      });
    return reply
      .setCookie(SESSION_COOKIE, cookie, { httpOnly: true, sameSite: 'strict', path: '/', maxAge: 43_200 })
      .redirect('/');
  });
}

/** Every route of the interface that answers once. */
export function addRoutes(app: Http, gateway: Gateway, sign: Sign): void {
  readRoutes(app, gateway, sign);
  changeRoutes(app, gateway, sign);
  /** Counters of this gateway in the Prometheus text format, for a scraper with a token of any role. */
  app.get('/metrics', async (request, reply) => {
    if (!authorise(sign, request, reply, READERS)) return reply;
    return reply.type('text/plain; version=0.0.4').send(gateway.metrics.text());
  });
  app.get('/healthz', async () => ({ ok: true }));
  /** 200 when the record answers. */
  app.get('/readyz', async (_request, reply) => {
    const ready = await gateway.audit.isReady();
    return ready
      ? { ok: true }
      : sendProblem(reply, { code: ERROR_CODES.auditUnavailable as ErrorCode, message: 'the record does not answer' });
  });
}
