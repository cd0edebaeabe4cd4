import * as z from 'zod/mini';
import { type Call, callSchema } from './calls.ts';
import { change, request } from './request.ts';

const sessionSchema = z.object({
  id: z.string(),
  agent: z.string(),
  principal: z.string(),
  host: z.string(),
  project: z.string(),
  permissionMode: z.string(),
  approvalMode: z.string(),
  eternal: z.boolean(),
  state: z.string(),
  parent: z.optional(z.string()),
  requestText: z.string(),
  /** Who stated the request; absent: the agent. */
  requestBy: z.optional(z.string()),
});
export type Session = z.infer<typeof sessionSchema>;

const callsSchema = z.object({ calls: z.array(callSchema), next: z.optional(z.string()) });
/** States of a call that its host works on. */
const RUNNING = 'dispatched,running,backgrounded';

/** Sessions that the person may know of, newest first, at most 500. */
export const fetchSessions = async (onlyOpen: boolean): Promise<readonly Session[]> =>
  (await request(`/v1/sessions${onlyOpen ? '?state=open' : ''}`, z.object({ sessions: z.array(sessionSchema) })))
    .sessions;

/** Calls that run on any host, at most 500. */
export const fetchRunning = async (): Promise<readonly Call[]> =>
  (await request(`/v1/calls?state=${RUNNING}&limit=500`, callsSchema)).calls;

/** The newest calls of a session. */
export const fetchCallsOf = async (session: string): Promise<readonly Call[]> =>
  (await request(`/v1/calls?${new URLSearchParams({ session, limit: '100' })}`, callsSchema)).calls;

/** Lets a running command go on in the background. */
export const sendToBackground = (callId: string, csrf: string | undefined) =>
  change('POST', `/v1/calls/${encodeURIComponent(callId)}/background`, z.object({ outcome: z.string() }), {
    csrf,
    body: {},
  });

/** Closes a session and every session below it. */
export const closeSession = (id: string, reason: string, csrf: string | undefined) =>
  change(
    'DELETE',
    `/v1/sessions/${encodeURIComponent(id)}?${new URLSearchParams({ reason })}`,
    z.object({ state: z.string() }),
    { csrf },
  );

/** Modes of a session, loosest last. */
export const PERMISSION_MODES = ['strict', 'dev', 'networked', 'yolo'] as const;
export const APPROVAL_MODES = ['manual', 'auto', 'full_access'] as const;
export type Modes = Pick<Session, 'permissionMode' | 'approvalMode' | 'eternal'>;

/** Changes modes of an open session for later calls. Rejects when they are above the ceilings. */
export const changeModes = (id: string, modes: Modes, csrf: string | undefined) =>
  change('POST', `/v1/sessions/${encodeURIComponent(id)}/modes`, z.object({ id: z.string() }), { csrf, body: modes });

/** States what a session is for, in the person's own words. */
export const stateRequest = (id: string, text: string, csrf: string | undefined) =>
  change('POST', `/v1/sessions/${encodeURIComponent(id)}/request`, z.object({ id: z.string() }), {
    csrf,
    body: { text },
  });

const ceilingsSchema = z.object({
  policy: z.object({
    ceilings: z.looseObject({
      mode: z.optional(z.string()),
      fullAccess: z.optional(z.boolean()),
      eternal: z.optional(z.boolean()),
    }),
    security: z.looseObject({ hardened_mode: z.optional(z.boolean()) }),
  }),
});

/** The loosest modes that anybody may give a session. */
export type Ceilings = { readonly mode: string; readonly fullAccess: boolean; readonly eternal: boolean };

export async function fetchCeilings(): Promise<Ceilings> {
  const { ceilings, security } = (await request('/v1/policy', ceilingsSchema)).policy;
  return {
    mode: ceilings.mode ?? 'yolo',
    fullAccess: ceilings.fullAccess === true,
    eternal: ceilings.eternal === true && security.hardened_mode !== true,
  };
}
