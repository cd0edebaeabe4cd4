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
