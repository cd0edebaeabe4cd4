import * as z from 'zod/mini';
import { change, request } from './request.ts';

const hostsSchema = z.object({
  hosts: z.array(
    z.object({
      host: z.string(),
      ready: z.boolean(),
      reason: z.string(),
      backends: z.array(z.string()),
      running: z.number(),
      /** What the host reported last; absent until it did. */
      version: z.optional(z.string()),
      platform: z.optional(z.string()),
      seenMs: z.optional(z.number()),
      clockAheadMs: z.optional(z.number()),
      /** -1: the host has no pins file; null while it is away. */
      pinnedClasses: z.nullable(z.number()),
    }),
  ),
});
const freezeSchema = z.object({
  epoch: z.number(),
  freezes: z.array(
    z.object({ scope: z.string(), reason: z.string(), by: z.string(), stopRunning: z.boolean(), setMs: z.number() }),
  ),
  confirmed: z.array(z.object({ host: z.string() })),
  unconfirmed: z.array(z.string()),
});
const grantSchema = z.object({
  id: z.string(),
  session: z.string(),
  agent: z.string(),
  host: z.string(),
  reach: z.array(z.string()),
  givenBy: z.string(),
  givenMs: z.number(),
  expiresMs: z.number(),
  uses: z.number(),
});

export type FreezeState = z.infer<typeof freezeSchema>;
export type Grant = z.infer<typeof grantSchema>;

export const fetchHosts = async () => (await request('/v1/hosts', hostsSchema)).hosts;
export const fetchFreeze = (): Promise<FreezeState> => request('/v1/freeze', freezeSchema);

/** Freezes `all`, or `host:`, `agent:`, `session:` with an id. */
export const setFreeze = (
  wish: { readonly scope: string; readonly reason: string; readonly stopRunning: boolean },
  csrf: string | undefined,
): Promise<FreezeState> => change('POST', '/v1/freeze', freezeSchema, { body: wish, csrf });

/** Lifts the freeze of exactly this scope. */
export const liftFreeze = (scope: string, reason: string, csrf: string | undefined): Promise<FreezeState> =>
  change('DELETE', `/v1/freeze?${new URLSearchParams({ scope, reason })}`, freezeSchema, { csrf });

export const fetchGrants = async () => (await request('/v1/grants', z.object({ grants: z.array(grantSchema) }))).grants;

/** Ends one grant. */
export const revokeGrant = (id: string, csrf: string | undefined) =>
  change('DELETE', `/v1/grants/${encodeURIComponent(id)}`, z.object({ revoked: z.array(z.string()) }), { csrf });
