import * as z from 'zod/mini';

const problemSchema = z.object({
  title: z.optional(z.string()),
  detail: z.optional(z.string()),
  code: z.optional(z.string()),
  winner: z.optional(z.string()),
});

/** An answer of the gateway that is not a success. `status` 0 means that there was none. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly winner: string | undefined;
  constructor(message: string, facts: { status: number; code?: string | undefined; winner?: string | undefined }) {
    super(message);
    this.name = 'ApiError';
    this.status = facts.status;
    this.code = facts.code ?? '';
    this.winner = facts.winner;
  }
}

/** A gateway that answers nothing for this long counts as one that cannot be reached. */
const PATIENCE_MS = 30_000;

async function send(path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(path, { credentials: 'same-origin', signal: AbortSignal.timeout(PATIENCE_MS), ...init });
  } catch {
    throw new ApiError('the gateway cannot be reached', { status: 0 });
  }
}

async function refusalOf(response: Response): Promise<ApiError> {
  const body: unknown = await response.json().catch(() => undefined);
  const problem = problemSchema.safeParse(body);
  const { detail, title, code, winner } = problem.success ? problem.data : {};
  const message = detail ?? title ?? `the gateway answered ${response.status}`;
  return new ApiError(message, { status: response.status, code, winner });
}

/** Reads JSON of a known form. Rejects with an ApiError for refusals, with a ZodError for another form. */
export async function request<T>(path: string, schema: z.ZodMiniType<T>, init: RequestInit = {}): Promise<T> {
  const response = await send(path, init);
  if (!response.ok) throw await refusalOf(response);
  return schema.parse(await response.json());
}

/** Reads text, such as an export. */
export async function requestText(path: string): Promise<string> {
  const response = await send(path, {});
  if (!response.ok) throw await refusalOf(response);
  return response.text();
}

/** Sends a change of the signed-in person. */
export const change = <T>(
  method: 'POST' | 'PUT' | 'DELETE',
  path: string,
  schema: z.ZodMiniType<T>,
  { body, csrf }: { body?: object; csrf: string | undefined },
): Promise<T> =>
  request(path, schema, {
    method,
    headers: {
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(csrf === undefined ? {} : { 'x-csrf-token': csrf }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
