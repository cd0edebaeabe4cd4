import * as z from 'zod/mini';
import { change, request } from './request.ts';

export const ROLES = ['viewer', 'approver', 'operator', 'admin', 'auditor'] as const;
export const SCOPES = ['read', 'decide', 'operate', 'admin'] as const;

const personSchema = z.object({
  subject: z.string(),
  roles: z.array(z.string()),
  groups: z.array(z.string()),
  source: z.string(),
  active: z.boolean(),
});
export type Person = z.infer<typeof personSchema>;

const tokenSchema = z.object({
  id: z.string(),
  label: z.string(),
  subject: z.string(),
  roles: z.array(z.string()),
  scopes: z.array(z.string()),
  expires_ms: z.number(),
  revoked_ms: z.nullable(z.number()),
});
export type Token = z.infer<typeof tokenSchema>;

const queueSchema = z.looseObject({
  approvers: z.optional(z.array(z.string())),
  readers: z.optional(z.array(z.string())),
  quorum: z.optional(z.array(z.object({ group: z.string(), count: z.number() }))),
});
const policySchema = z.object({
  policy: z.object({
    permissions: z.looseObject({ queues: z.optional(z.record(z.string(), queueSchema)) }),
    security: z.looseObject({ hardened_mode: z.optional(z.boolean()) }),
  }),
});

export const fetchPeople = async () =>
  (await request('/v1/people', z.object({ people: z.array(personSchema) }))).people;

/** Adds a person, or sets roles, groups and state. */
export const savePerson = ({ subject, roles, groups, active }: Omit<Person, 'source'>, csrf: string | undefined) =>
  change('PUT', `/v1/people/${encodeURIComponent(subject)}`, z.object({ subject: z.string() }), {
    csrf,
    body: { roles, groups, active },
  });

export const fetchTokens = async () => (await request('/v1/tokens', z.object({ tokens: z.array(tokenSchema) }))).tokens;

export type NewToken = {
  readonly label: string;
  readonly roles: readonly string[];
  readonly scopes: readonly string[];
  readonly days: number;
};

/** Makes a token of the signed-in person. `text` is in this answer only. */
export const createToken = (wanted: NewToken, csrf: string | undefined) =>
  change('POST', '/v1/tokens', z.object({ id: z.string(), text: z.string() }), { csrf, body: wanted });

export const revokeToken = (id: string, csrf: string | undefined) =>
  change('DELETE', `/v1/tokens/${encodeURIComponent(id)}`, z.object({ id: z.string() }), { csrf });

export const fetchChannels = async () =>
  (
    await request(
      '/v1/notifications/channels',
      z.object({ channels: z.array(z.object({ id: z.string(), kind: z.string() })) }),
    )
  ).channels;

export const testChannel = (id: string, csrf: string | undefined) =>
  change('POST', `/v1/notifications/channels/${encodeURIComponent(id)}/test`, z.object({ id: z.string() }), { csrf });

const deadSchema = z.object({ notices: z.array(z.object({ seq: z.number(), channel: z.string(), why: z.string() })) });

/** Notices that were given up, oldest first. */
export const fetchDead = async () => (await request('/v1/notifications/dead', deadSchema)).notices;

export const replayNotice = (seq: number, csrf: string | undefined) =>
  change('POST', `/v1/notifications/dead/${seq}/replay`, z.object({ queued: z.boolean() }), { csrf });

/** What the policy in force says of queues and hardened mode. */
export async function fetchGovernance() {
  const { policy } = await request('/v1/policy', policySchema);
  return { queues: policy.permissions.queues ?? {}, hardened: policy.security.hardened_mode === true };
}
