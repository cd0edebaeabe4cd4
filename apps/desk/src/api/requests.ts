import * as z from 'zod/mini';
import { change, request } from './request.ts';

const summarySchema = z.object({
  id: z.string(),
  kind: z.enum(['update', 'folder']),
  agent: z.string(),
  host: z.string(),
  session: z.optional(z.string()),
  path: z.optional(z.string()),
  reason: z.string(),
  state: z.string(),
  untilMs: z.number(),
});
export type PermissionRequest = z.infer<typeof summarySchema>;

const detailSchema = z.extend(summarySchema, {
  /** What an approval would change now, one line each. */
  says: z.optional(z.array(z.string())),
  digest: z.optional(z.string()),
  /** Why it cannot be approved now. */
  problem: z.optional(z.string()),
});
export type RequestDetail = z.infer<typeof detailSchema>;

/** Permission requests that wait and that the person may know of. */
export const fetchRequests = async (): Promise<readonly PermissionRequest[]> =>
  (await request('/v1/requests?state=waiting', z.object({ requests: z.array(summarySchema) }))).requests;

const pathOf = (id: string, rest = ''): string => `/v1/requests/${encodeURIComponent(id)}${rest}`;

export const fetchRequest = (id: string): Promise<RequestDetail> => request(pathOf(id), detailSchema);

/** Approves exactly the lines that `digest` names. */
export const approveRequest = (id: string, body: { digest: string; reason: string }, csrf: string | undefined) =>
  change('POST', pathOf(id, '/approve'), summarySchema, { body, csrf });

export const denyRequest = (id: string, reason: string, csrf: string | undefined) =>
  change('POST', pathOf(id, '/deny'), summarySchema, { body: { reason }, csrf });
