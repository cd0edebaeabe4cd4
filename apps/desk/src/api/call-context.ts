import * as z from 'zod/mini';
import { callSchema } from './calls.ts';
import { request } from './request.ts';

const place = { start: z.number(), end: z.number() };

const contextSchema = z.object({
  /** The command as the policy engine parsed it; absent for other tools. */
  command: z.optional(
    z.object({
      tokens: z.array(z.object({ ...place, kind: z.string() })),
      decisive: z.array(
        z.object({ ...place, effect: z.string(), reasons: z.array(z.string()), rules: z.array(z.string()) }),
      ),
      /** Why the engine could not read it. */
      problems: z.array(z.string()),
    }),
  ),
  /** The engine's answer by the policy as it is now; absent when the host is away. */
  present: z.optional(
    z.object({ effect: z.string(), reasons: z.array(z.string()), rules: z.array(z.string()), mode: z.string() }),
  ),
  /** What the order would hold the host to. */
  limits: z.optional(
    z.object({
      project: z.string(),
      folder: z.string(),
      hosts: z.array(z.string()),
      denyRead: z.array(z.string()),
      denyWrite: z.array(z.string()),
      environment: z.array(z.string()),
      timeoutMs: z.number(),
      preconditions: z.array(z.object({ path: z.string(), realPath: z.string() })),
      chain: z.array(z.string()),
    }),
  ),
  session: z.optional(
    z.object({
      id: z.string(),
      agent: z.string(),
      principal: z.string(),
      host: z.string(),
      project: z.string(),
      permissionMode: z.string(),
      approvalMode: z.string(),
      model: z.string(),
      requestText: z.string(),
      /** Who stated the request; absent: the agent. */
      requestBy: z.optional(z.string()),
      state: z.string(),
    }),
  ),
  /** What the Guardian said of this call, from the record. */
  guardian: z.optional(z.object({ verdict: z.string(), reason: z.string(), model: z.string() })),
});

/** What surrounds a call: its parts, limits, session and the rules that judge it. */
export type CallContext = z.infer<typeof contextSchema>;

export const fetchCallContext = (callId: string): Promise<CallContext> =>
  request(`/v1/calls/${encodeURIComponent(callId)}/context`, contextSchema);

/** Earlier calls of the same tool, agent and program, newest first. */
export const fetchAlike = async (callId: string) =>
  (await request(`/v1/calls/${encodeURIComponent(callId)}/alike`, z.object({ calls: z.array(callSchema) }))).calls;

const scriptSchema = z.object({
  path: z.string(),
  text: z.optional(z.string()),
  problem: z.optional(z.enum(['changed', 'large', 'unreadable', 'binary'])),
});

/** Text of the scripts that a command starts, as its host has them now; masked. */
export const fetchScripts = async (callId: string) =>
  (await request(`/v1/calls/${encodeURIComponent(callId)}/scripts`, z.object({ scripts: z.array(scriptSchema) })))
    .scripts;
