import * as z from 'zod/mini';
import type { Assertion } from './passkeys.ts';
import { change, request } from './request.ts';

/** A call as lists and events show it; secrets are masked. */
export const callSchema = z.object({
  callId: z.string(),
  agent: z.string(),
  sessionId: z.string(),
  host: z.string(),
  tool: z.string(),
  action: z.string(),
  summary: z.string(),
  state: z.string(),
  receivedMs: z.number(),
  deadlineMs: z.number(),
  queue: z.optional(z.string()),
  principal: z.optional(z.string()),
  decidedBy: z.optional(z.string()),
  decidedByName: z.optional(z.string()),
  reason: z.optional(z.string()),
});

const detailSchema = z.extend(callSchema, {
  arguments: z.string(),
  view: z.object({
    reasons: z.optional(z.array(z.string())),
    realPath: z.optional(z.string()),
    diff: z.optional(z.string()),
    profile: z.optional(z.string()),
    /** A backend that the policy names; `app-guard` isolates nothing. */
    backend: z.optional(z.string()),
    project: z.optional(z.string()),
    /** Hosts that the sandbox may reach. */
    hosts: z.optional(z.array(z.string())),
    timeoutMs: z.optional(z.number()),
    /** Sessions from the root to the one that executes. */
    chain: z.optional(z.array(z.string())),
    /** How long an approval may hold; `session` lists what a grant would cover. */
    offers: z.optional(
      z.object({
        once: z.boolean(),
        session: z.optional(z.array(z.string())),
        /** The rule that `always` would save. */
        always: z.optional(
          z.object({
            says: z.array(z.string()),
            reach: z.string(),
            folder: z.optional(z.string()),
            files: z.array(z.string()),
            expiresMs: z.number(),
            /** Somebody else has to publish it. */
            proposal: z.boolean(),
          }),
        ),
      }),
    ),
  }),
  viewDigest: z.string(),
  /** An approval needs the person's passkey. */
  passkey: z.boolean(),
  /** Why the signed-in person could not approve. */
  refusal: z.optional(z.string()),
  /** Who has answered a waiting call and who is missing; an empty group stands for any approver. */
  approval: z.optional(
    z.object({
      answered: z.array(z.string()),
      missing: z.array(z.object({ group: z.string(), count: z.number() })),
      escalated: z.boolean(),
      dueMs: z.optional(z.number()),
    }),
  ),
});

export type Call = z.infer<typeof callSchema>;
/** A call with its exact arguments and the view that a decision refers to. */
export type CallDetail = z.infer<typeof detailSchema>;

const listSchema = z.object({ calls: z.array(callSchema), next: z.optional(z.string()) });

/** Most waiting calls that the desk reads; more are counted as cut off. */
const MAX_WAITING = 10_000;

/** Every call that waits for a person. `cut` is true when there were more than the desk reads. */
export async function fetchWaiting(): Promise<{ calls: readonly Call[]; cut: boolean }> {
  const calls: Call[] = [];
  let page = '';
  do {
    const found = await request(
      `/v1/calls?state=pending&limit=500${page === '' ? '' : `&page=${encodeURIComponent(page)}`}`,
      listSchema,
    );
    calls.push(...found.calls);
    page = found.next ?? '';
  } while (page !== '' && calls.length < MAX_WAITING);
  return { calls, cut: page !== '' };
}

/** One call with its exact text. */
export const fetchCall = (callId: string): Promise<CallDetail> =>
  request(`/v1/calls/${encodeURIComponent(callId)}`, detailSchema);

/** What a person takes away from a call; it never adds. */
export type Narrowing = {
  /** Of the hosts that the call may reach, those that stay. */
  readonly hosts?: readonly string[];
  /** Shorter wall-clock limit, milliseconds. */
  readonly timeoutMs?: number;
  /** Patterns of paths that become read-only. */
  readonly readOnlyPaths?: readonly string[];
};

/** How an approval can be kept for later calls. */
export type Kept = 'session' | 'always';

/** What a person answers. */
export type Answer = {
  readonly answer: 'approve' | 'deny';
  readonly reason: string;
  /** Only where the call offers it: a grant for the session, or a saved rule. */
  readonly remember?: Kept;
  readonly narrow?: Narrowing | undefined;
};

/** Answers a call. Rejects with 409 when somebody else was first or the view is out of date. */
export const decideCall = (
  call: Pick<CallDetail, 'callId' | 'viewDigest'>,
  { answer, reason, remember, narrow }: Answer,
  csrf: string | undefined,
  assertion?: Assertion,
): Promise<{ state: string }> =>
  change('POST', `/v1/calls/${encodeURIComponent(call.callId)}/decision`, z.object({ state: z.string() }), {
    csrf,
    body: {
      answer,
      viewDigest: call.viewDigest,
      ...(reason === '' ? {} : { reason }),
      ...(remember === undefined ? {} : { remember }),
      ...(assertion === undefined ? {} : { assertion }),
      ...(narrow === undefined ? {} : { narrow }),
    },
  });

/** Cancels a waiting call, or asks the host to stop a running one. */
export const cancelCall = (callId: string, reason: string, csrf: string | undefined): Promise<{ outcome: string }> =>
  change('POST', `/v1/calls/${encodeURIComponent(callId)}/cancel`, z.object({ outcome: z.string() }), {
    csrf,
    body: { reason },
  });

/** Ends the turn of a call: its other calls are cancelled while they wait and stopped while they run. */
export const stopTurn = (callId: string, reason: string, csrf: string | undefined): Promise<{ stopped: number }> =>
  change('POST', `/v1/calls/${encodeURIComponent(callId)}/stop-turn`, z.object({ stopped: z.number() }), {
    csrf,
    body: { reason },
  });
