import type { HoldList } from '@countersign/protocol';
import { z } from 'zod';
import type { Gateway } from '../context.ts';
import { maskText } from '../masking.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import { mayAudit, refuse } from './evidence-routes.ts';
import type { Http } from './http.ts';

const wishSchema = z.strictObject({
  scope: z.string().min(1).max(256),
  reason: z.string().trim().min(1, 'say why').max(1_000),
});

const listOf = ({ holds }: HoldList) => ({
  holds: holds.map(({ scope, reason, subject, setMs }) => ({ scope, reason, by: subject, setMs: Number(setMs) })),
});

function holdRoutes(app: Http, { audit: { evidence } }: Gateway): void {
  /** Scopes of the record that nothing may be erased or dropped from. */
  app.get('/v1/audit/holds', { config: { access: ACCESS.exportAll } }, async (request, reply) => {
    if (!mayAudit(request, reply)) return reply;
    const found = await evidence.listHolds();
    return found.ok ? listOf(found.value) : refuse(reply, found.error);
  });

  /** Holds `all`, `session:ID`, `agent:ID`, `principal:NAME` or `range:FIRST-LAST` (log indexes), for a reason. */
  app.post(
    '/v1/audit/holds',
    { config: { access: ACCESS.operate }, schema: { body: wishSchema } },
    async (request, reply) => {
      const { scope, reason } = request.body;
      const held = await evidence.setHold({ scope, reason: maskText(reason), subject: principalOf(request).name });
      return held.ok ? listOf(held.value) : refuse(reply, held.error);
    },
  );

  /** Lifts the hold of exactly this scope, for a reason. */
  app.delete(
    '/v1/audit/holds',
    { config: { access: ACCESS.administer }, schema: { querystring: wishSchema } },
    async (request, reply) => {
      const { scope, reason } = request.query;
      const held = await evidence.releaseHold({ scope, reason: maskText(reason), subject: principalOf(request).name });
      return held.ok ? listOf(held.value) : refuse(reply, held.error);
    },
  );
}

/** Holds, erasure and retention of what the record keeps. */
export function addCustodyRoutes(app: Http, gateway: Gateway): void {
  const { evidence } = gateway.audit;
  holdRoutes(app, gateway);

  /** Makes the payloads of `session:ID`, `agent:ID` or `principal:NAME` unreadable for ever; the entries stay provable. */
  app.post(
    '/v1/audit/erasures',
    { config: { access: ACCESS.administer }, schema: { body: wishSchema } },
    async (request, reply) => {
      const { scope, reason } = request.body;
      const done = await evidence.erase({ scope, reason: maskText(reason), subject: principalOf(request).name });
      return done.ok ? done.value : refuse(reply, done.error);
    },
  );

  /** What retention ends now: payloads of sessions, and the oldest partition of entries or why it stays; with `apply` ends it. */
  app.post(
    '/v1/audit/retention',
    { config: { access: ACCESS.administer }, schema: { body: z.strictObject({ apply: z.boolean().default(false) }) } },
    async (request, reply) => {
      const done = await evidence.applyRetention(request.body.apply, principalOf(request).name);
      return done.ok ? { ...done.value, entries: Number(done.value.entries) } : refuse(reply, done.error);
    },
  );
}
