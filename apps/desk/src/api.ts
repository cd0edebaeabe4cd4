import { z } from 'zod';

const callSchema = z.object({
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
  scope: z.string().optional(),
  decidedBy: z.string().optional(),
  decidedByName: z.string().optional(),
  reason: z.string().optional(),
});
const detailSchema = callSchema.extend({
  arguments: z.string(),
  view: z.object({
    reasons: z.array(z.string()).optional(),
    realPath: z.string().optional(),
    diff: z.string().optional(),
    profile: z.string().optional(),
  }),
  viewDigest: z.string(),
});
const meSchema = z.object({ name: z.string(), role: z.string(), csrf: z.string().optional() });
const problemSchema = z.object({
  title: z.string().optional(),
  detail: z.string().optional(),
  code: z.string().optional(),
});

/** A call as a list shows it; secrets are masked. */
export type Call = z.infer<typeof callSchema>;
/** A call with its exact arguments and the view that a decision refers to. */
export type CallDetail = z.infer<typeof detailSchema>;
export type Me = z.infer<typeof meSchema>;
export type Answer = 'approve' | 'deny';

/** An answer of the gateway that is not a success. */
export class ApiError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
  }
}

async function request<T>(path: string, schema: z.ZodType<T>, init: RequestInit = {}): Promise<T> {
  const response = await fetch(path, { credentials: 'same-origin', ...init });
  const body: unknown = await response.json().catch(() => undefined);
  if (!response.ok) {
    const problem = problemSchema.safeParse(body);
    const text = problem.success ? (problem.data.detail ?? problem.data.title) : undefined;
    throw new ApiError(response.status, text ?? `the gateway answered ${response.status}`);
  }
  return schema.parse(body);
}

/** Who is signed in. Rejects with status 401 when nobody is. */
export const fetchMe = (): Promise<Me> => request('/v1/me', meSchema);

/** Calls that wait for a person, newest first. */
export const fetchWaiting = async (): Promise<Call[]> =>
  (await request('/v1/calls?state=pending&limit=200', z.object({ calls: z.array(callSchema) }))).calls;

/** One call with its exact text. */
export const fetchCall = (callId: string): Promise<CallDetail> =>
  request(`/v1/calls/${encodeURIComponent(callId)}`, detailSchema);

/** Answers a call. Rejects with 409 when somebody else was first or the view is out of date. */
export const decide = (
  call: CallDetail,
  answer: Answer,
  reason: string,
  csrf: string | undefined,
): Promise<{ state: string }> =>
  request(`/v1/calls/${encodeURIComponent(call.callId)}/decision`, z.object({ state: z.string() }), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(csrf === undefined ? {} : { 'x-csrf-token': csrf }) },
    body: JSON.stringify({ answer, viewDigest: call.viewDigest, ...(reason === '' ? {} : { reason }) }),
  });
