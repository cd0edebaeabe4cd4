import { ERROR_CODES } from '@countersign/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Authenticator } from '../access/authenticator.ts';
import { factsSchema, type Invitations, type Joined } from '../access/invitations.ts';
import { ensureWorkConsumer } from '../broker/streams.ts';
import type { Gateway } from '../context.ts';
import { type Inclusion, proveInclusion } from '../record/inclusion.ts';
import { memberSchema } from '../record/members.ts';
import { ACCESS, principalOf } from './access-hook.ts';
import type { Http } from './http.ts';
import { sendProblem } from './problem.ts';

const HOUR_MS = 3_600_000;
const MAX_HOURS = 168;

/** What the routes of enrolment need. */
export type Enrolment = {
  readonly invitations: Invitations;
  readonly authenticator: Authenticator;
  readonly rootKey: string;
  /** Broker address for hosts and agents. */
  readonly natsUrl: string;
};

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

const answerOf = (
  { rootKey, natsUrl }: Enrolment,
  { member }: Joined,
  { found, roster }: { found: Inclusion; roster: Uint8Array },
) => ({
  role: member.role,
  id: member.id,
  rootKey,
  roster: base64(roster),
  natsUrl,
  checkpoint: found.checkpoint,
  entry: { leaf: base64(found.leaf), index: found.index, proof: found.proof.map(base64) },
});

const keysSchema = z.strictObject({
  signKey: memberSchema.shape.sign_key,
  sealKey: memberSchema.shape.seal_key,
  proof: z.base64().max(100),
});

async function enrol(
  gateway: Gateway,
  enrolment: Enrolment,
  request: FastifyRequest<{ Body: z.infer<typeof keysSchema> }>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { authenticator, invitations } = enrolment;
  const wait = authenticator.waitSeconds(request);
  if (wait > 0)
    return sendProblem(reply.header('retry-after', wait), {
      code: ERROR_CODES.rateLimited,
      message: `wrong credentials came from your address; wait ${wait} s`,
    });
  const text = /^Bearer (csi_[\w-]{1,200})$/.exec(request.headers.authorization ?? '')?.[1] ?? '';
  const { signKey, sealKey, proof } = request.body;
  const joined = await invitations.redeem(text, { signKey, sealKey, proof: Buffer.from(proof, 'base64') });
  if (!joined.ok) {
    if (joined.error.code === ERROR_CODES.unauthenticated) authenticator.failed(request);
    return sendProblem(reply, joined.error);
  }
  await gateway.members.refresh();
  const { role, id } = joined.value.member;
  if (role === 'host') await ensureWorkConsumer(gateway.broker.manager, id);
  const found = await proveInclusion(gateway.audit, joined.value.entryId);
  if (!found)
    return sendProblem(reply, {
      code: ERROR_CODES.auditUnavailable,
      message: 'the record does not show the entry yet',
    });
  return reply.code(201).send(answerOf(enrolment, joined.value, { found, roster: gateway.rosters.known.signed }));
}

/** Routes by which hosts and agents join. */
export function addEnrolRoutes(app: Http, gateway: Gateway, enrolment: Enrolment): void {
  /** Enrolled hosts and agents with their public keys. */
  app.get('/v1/members', { config: { access: ACCESS.exportAll } }, async () => ({
    members: gateway.members.all(),
  }));

  /** Makes a one-time invitation that fixes what the member may do. Its text is in this answer only. */
  app.post(
    '/v1/invitations',
    {
      config: { access: ACCESS.enrol },
      schema: { body: z.strictObject({ member: factsSchema, hours: z.int().min(1).max(MAX_HOURS).default(24) }) },
    },
    async (request, reply) => {
      const { member, hours } = request.body;
      const made = await enrolment.invitations.create(member, hours * HOUR_MS, principalOf(request).name);
      return reply.code(201).header('cache-control', 'no-store').send(made);
    },
  );

  /** Enrols the sender's own keys. The credential is the invitation, which works once. */
  app.post('/v1/enrolments', { config: { access: ACCESS.open }, schema: { body: keysSchema } }, (request, reply) =>
    enrol(gateway, enrolment, request, reply),
  );
}
