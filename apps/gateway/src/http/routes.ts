import { CallPayload, type CallRecord, ERROR_CODES, type ErrorCode } from '@countersign/protocol';
import { z } from 'zod';
import { type Principal, visible } from '../access/principal.ts';
import { ensureWorkConsumer } from '../broker/streams.ts';
import { callSummary } from '../calls/announce.ts';
import { answerCall } from '../calls/answer.ts';
import { cancelCall } from '../calls/cancel.ts';
import { readView, type View } from '../calls/view.ts';
import type { Gateway } from '../context.ts';
import { coverText, narrowingSchema } from '../grants/grant.ts';
import { alwaysRule, ruleView } from '../layers/save-rule.ts';
import { memberSchema } from '../record/members.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import { addFreezeRoutes } from './freeze-routes.ts';
import { addGrantRoutes } from './grant-routes.ts';
import { addGuardianRoutes } from './guardian-routes.ts';
import type { Http } from './http.ts';
import { addLayerRoutes } from './layer-routes.ts';
import { assertionSchema } from './passkey-routes.ts';
import { addPausedTurnRoutes } from './paused-turn-routes.ts';
import { addPolicyRoutes } from './policy-routes.ts';
import { sendProblem } from './problem.ts';
import { addRequestRoutes } from './request-routes.ts';
import { addRuleRoutes } from './rule-routes.ts';
import { addSessionRoutes } from './session-routes.ts';
import { callIdSchema, NO_CALL, visibleCall } from './visible-call.ts';

/** What each answer would keep, exactly. */
function offersOf(gateway: Gateway, record: CallRecord, view: View) {
  const rule = alwaysRule(gateway, record, view, '');
  const { says, reach, folder, files, expiresMs } = rule ? ruleView(rule) : {};
  return {
    once: true,
    ...(view.offers.session ? { session: view.offers.session.map(coverText) } : {}),
    ...(rule ? { always: { says, reach, folder, files, expiresMs, proposal: rule.state === 'proposed' } } : {}),
  };
}

/** What an approver sees beside the arguments: all that the decision covers. */
const shownView = (gateway: Gateway, record: CallRecord, view: View) => ({
  reasons: view.reasons,
  project: view.project,
  profile: view.profile,
  /** `agent`: carried out by the agent itself, outside every sandbox of ours. */
  ...(view.executor ? { executor: view.executor } : {}),
  /** A backend that the policy names; `app-guard` isolates nothing. */
  ...(view.obligations.backend ? { backend: view.obligations.backend } : {}),
  hosts: view.obligations.hosts,
  timeoutMs: view.obligations.timeout_ms,
  chain: view.chain,
  offers: offersOf(gateway, record, view),
  ...(view.realPath ? { realPath: view.realPath } : {}),
  ...(view.diff ? { diff: view.diff } : {}),
  /** What must still be so on the host when the call starts. */
  preconditions: view.preconditions,
});

/** How a waiting call stands, and why this reader could not approve it; the gateway judges each answer anew. */
async function standingFor(gateway: Gateway, record: CallRecord, reader: Principal) {
  const { refusal, ...approval } = await gateway.governance.status(record, reader);
  return { approval, ...(refusal === undefined ? {} : { refusal }) };
}

function readRoutes(app: Http, gateway: Gateway): void {
  /** Calls by state and session, newest first; masked text. */
  app.get(
    '/v1/calls',
    {
      config: { access: ACCESS.read },
      schema: {
        querystring: z.object({
          state: z.string().max(200).optional(),
          session: z.string().max(64).optional(),
          limit: z.coerce.number().int().min(1).max(500).default(100),
          /** `next` of the page before. */
          page: z.string().max(200).optional(),
        }),
      },
    },
    async (request) => {
      const states = request.query.state?.split(',') ?? [];
      const { limit, page: token, session } = request.query;
      const page = await gateway.audit.listCalls(states, limit, token, session);
      const principal = principalOf(request);
      const calls = page.calls.filter((call) => visible(principal, call, gateway.queues)).map(callSummary);
      return { calls, ...(page.nextPageToken === '' ? {} : { next: page.nextPageToken }) };
    },
  );

  /** One call with its exact arguments and the view that a decision refers to. */
  app.get(
    '/v1/calls/:id',
    { config: { access: ACCESS.read }, schema: { params: callIdSchema } },
    async (request, reply) => {
      const record = await visibleCall(gateway, request);
      if (!record) return sendProblem(reply, NO_CALL);
      const payload = await gateway.audit.getPayload(record.callId, principalOf(request).name);
      const opened = await gateway.control
        .open(payload?.sealedPayload ?? new Uint8Array(), record.callId)
        .catch(() => undefined);
      const view = readView(record.view);
      return {
        ...callSummary(record),
        arguments: opened ? new TextDecoder().decode(CallPayload.decode(opened).arguments) : '',
        view: view ? shownView(gateway, record, view) : {},
        viewDigest: Buffer.from(record.viewDigest).toString('hex'),
        /** An approval needs the passkey's answer to the call's challenge. */
        passkey: gateway.governance.queue(record.queue).passkey === true,
        ...(record.state === 'pending' ? await standingFor(gateway, record, principalOf(request)) : {}),
      };
    },
  );

  /** Enrolled hosts with health, versions, clock and the sandboxes that passed their self-test. */
  app.get('/v1/hosts', { config: { access: ACCESS.read } }, async () => {
    await gateway.members.refresh();
    return { hosts: gateway.hosts.list(gateway.now()) };
  });
}

function journalRoutes(app: Http, gateway: Gateway): void {
  /** Takes the journal that a host has now for its own, after it was lost or set back. Until then the host gets no work. */
  app.post(
    '/v1/hosts/:host/journal',
    { config: { access: ACCESS.operate }, schema: { params: z.strictObject({ host: z.string().min(1).max(64) }) } },
    async (request, reply) => {
      const { host } = request.params;
      const heartbeat = gateway.hosts.present(host, gateway.now());
      if (!heartbeat) {
        const message = `host \`${host}\` is not there; start its runner first`;
        return sendProblem(reply, { code: ERROR_CODES.notFound, message });
      }
      const confirmed = await gateway.hosts.journals.confirm(heartbeat, principalOf(request).name);
      return confirmed.ok ? { host, journal: heartbeat.journalId } : sendProblem(reply, confirmed.error);
    },
  );
}

function changeRoutes(app: Http, gateway: Gateway): void {
  /** One person's answer. 409 when somebody else was first (with `winner`) or the view is out of date. */
  app.post(
    '/v1/calls/:id/decision',
    {
      config: { access: ACCESS.decide },
      schema: {
        params: callIdSchema,
        body: z.strictObject({
          answer: z.enum(['approve', 'deny']),
          reason: z.string().max(2_000).default(''),
          viewDigest: z.string().regex(/^[0-9a-f]{64}$/),
          /** How long an approval holds; only what the call's `offers` show. */
          remember: z.enum(['once', 'session', 'always']).optional(),
          /** What the approval takes away; it never adds. */
          narrow: narrowingSchema.optional(),
          /** A shorter life of the grant, milliseconds. */
          grantMs: z.int().min(1_000).optional(),
          /** Approves alone in an emergency; somebody else reviews it. */
          breakGlass: z.boolean().default(false),
          /** The answer of the caller's passkey to the call's challenge. */
          assertion: assertionSchema.optional(),
        }),
      },
    },
    async (request, reply) => {
      if (!(await visibleCall(gateway, request))) return sendProblem(reply, NO_CALL);
      const answered = await answerCall(gateway, request.params.id, principalOf(request), request.body);
      return answered.ok ? answered.value : sendProblem(reply, answered.error);
    },
  );

  /** Cancels a waiting call or asks the host to stop a running one. */
  app.post(
    '/v1/calls/:id/cancel',
    {
      config: { access: ACCESS.decide },
      schema: { params: callIdSchema, body: z.strictObject({ reason: z.string().max(2_000).default('') }) },
    },
    async (request, reply) => {
      if (!(await visibleCall(gateway, request))) return sendProblem(reply, NO_CALL);
      const { name } = principalOf(request);
      const outcome = await cancelCall(gateway, '', request.params.id, name, request.body.reason);
      if (outcome === 'not_found') return sendProblem(reply, NO_CALL);
      if (outcome === 'ended')
        return sendProblem(reply, { code: ERROR_CODES.alreadyDecided, message: 'call has ended' });
      return { outcome };
    },
  );

  /** Enrols an agent or host; repeating it with the same facts changes nothing. */
  app.post(
    '/v1/members',
    { config: { access: ACCESS.enrol }, schema: { body: memberSchema.omit({ previous: true, revoked: true }) } },
    async (request, reply) => {
      const member = memberSchema.parse(request.body);
      const { refused } = await gateway.members.enrol(member, principalOf(request).name, gateway.now());
      if (refused) return sendProblem(reply, { code: ERROR_CODES.auditUnavailable, message: refused });
      if (request.body.role === 'host') await ensureWorkConsumer(gateway.broker.manager, request.body.id);
      return { id: request.body.id };
    },
  );
}

/** Every route of the interface that answers once. */
export function addRoutes(app: Http, gateway: Gateway): void {
  readRoutes(app, gateway);
  journalRoutes(app, gateway);
  changeRoutes(app, gateway);
  addGrantRoutes(app, gateway);
  addFreezeRoutes(app, gateway);
  addPolicyRoutes(app, gateway);
  addLayerRoutes(app, gateway);
  addRuleRoutes(app, gateway);
  addRequestRoutes(app, gateway);
  addSessionRoutes(app, gateway);
  addGuardianRoutes(app, gateway);
  addPausedTurnRoutes(app, gateway);
  /** Counters of this gateway in the Prometheus text format, for a scraper with a token of any role. */
  app.get('/metrics', { config: { access: ACCESS.read } }, async (_request, reply) =>
    reply.type('text/plain; version=0.0.4').send(gateway.metrics.text()),
  );
  /** 200 while the process serves. */
  app.get('/healthz', { config: { access: ACCESS.probe } }, async () => ({ ok: true }));
  let asking: Promise<boolean> | undefined;
  /** 200 when the record answers and this gateway's clock goes like the database's; otherwise 503, which of the two in `code`. */
  app.get('/readyz', { config: { access: ACCESS.probe } }, async (_request, reply) => {
    // One question at a time, whoever asks however often.
    asking ??= gateway.audit.isReady().finally(() => {
      asking = undefined;
    });
    const ready = await asking;
    if (ready && !gateway.clock.isRight()) return sendProblem(reply, gateway.clock.problem());
    return ready
      ? { ok: true }
      : sendProblem(reply, { code: ERROR_CODES.auditUnavailable as ErrorCode, message: 'the record does not answer' });
  });
}
