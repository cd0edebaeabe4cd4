import { ERROR_CODES, overlapSchema } from '@countersign/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { MemberKeys } from '../access/member-keys.ts';
import { endWhatRevokedKeysStarted } from '../calls/end-revoked.ts';
import type { Gateway } from '../context.ts';
import { memberSchema } from '../record/members.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';

const MINUTE_MS = 60_000;

const { role, id, sign_key, seal_key } = memberSchema.shape;
const signature = z.base64().max(100);
const rotationSchema = z.strictObject({
  role,
  id,
  oldKey: sign_key,
  signKey: sign_key,
  sealKey: seal_key,
  consent: signature,
  proof: signature,
  /** How long the replaced key still counts. */
  overlapMinutes: overlapSchema.default(60),
});

async function rotate(
  gateway: Gateway,
  keys: MemberKeys,
  request: FastifyRequest<{ Body: z.infer<typeof rotationSchema> }>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { authenticator } = gateway.access;
  const wait = authenticator.waitSeconds(request);
  if (wait > 0)
    return sendProblem(reply.header('retry-after', wait), {
      code: ERROR_CODES.rateLimited,
      message: `wrong credentials came from your address; wait ${wait} s`,
    });
  const { body } = request;
  const bytes = (text: string) => new Uint8Array(Buffer.from(text, 'base64'));
  const made = await keys.rotate(body.role, body.id, {
    keys: { ...body, consent: bytes(body.consent), proof: bytes(body.proof) },
    overlapMs: body.overlapMinutes * MINUTE_MS,
  });
  if (!made.ok) {
    authenticator.failed(request);
    return sendProblem(reply, made.error);
  }
  gateway.broker.bus.tell('members');
  return reply.code(201).send({ role: body.role, id: body.id, previous: made.value.previous });
}

function rosterRoutes(app: Http, gateway: Gateway): void {
  const { rosters } = gateway;

  /** The roster in force: keys of the control plane, as the organisation root signed them (`signed`, base64). */
  app.get('/v1/roster', { config: { access: ACCESS.exportAll } }, async () => ({
    ...rosters.known.current,
    signed: Buffer.from(rosters.known.signed).toString('base64'),
  }));

  /** Puts a roster in force that the organisation root signed. Its version never goes back; every member has it within seconds. */
  app.put(
    '/v1/roster',
    { config: { access: ACCESS.administer }, schema: { body: z.strictObject({ signed: z.base64().max(60_000) }) } },
    async (request, reply) => {
      const signed = new Uint8Array(Buffer.from(request.body.signed, 'base64'));
      const published = await rosters.publish(signed, principalOf(request).name);
      return published.ok ? { version: published.value.version } : sendProblem(reply, published.error);
    },
  );
}

/** Routes of keys: the roster, and those of hosts and agents. */
export function addKeyRoutes(app: Http, gateway: Gateway): void {
  const keys = new MemberKeys(gateway);
  rosterRoutes(app, gateway);

  /** Replaces the sender's own keys. The credential is the signature of its present key. */
  app.post('/v1/member-keys', { config: { access: ACCESS.open }, schema: { body: rotationSchema } }, (request, reply) =>
    rotate(gateway, keys, request, reply),
  );

  /** Revokes a key of a host or agent for good. What an agent's key started ends: waiting calls are cancelled, running ones stopped. */
  app.delete(
    '/v1/members/:role/:id/keys/:key',
    { config: { access: ACCESS.enrol }, schema: { params: z.object({ role, id, key: sign_key }) } },
    async (request, reply) => {
      const { params } = request;
      const revoked = await keys.revoke(params.role, params.id, params.key, principalOf(request).name);
      if (!revoked.ok) return sendProblem(reply, revoked.error);
      gateway.broker.bus.tell('members');
      await endWhatRevokedKeysStarted(gateway).catch((error: unknown) =>
        gateway.logger.warn({ err: error }, 'not all that a revoked key started is ended; the sweep goes on'),
      );
      return { key: params.key };
    },
  );
}
