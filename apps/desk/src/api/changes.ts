import * as z from 'zod/mini';
import { change, request } from './request.ts';

const changeSchema = z.object({
  change: z.string(),
  callId: z.string(),
  agent: z.string(),
  host: z.string(),
  tool: z.string(),
  path: z.string(),
  atMs: z.number(),
  state: z.enum(['unreviewed', 'reviewed', 'rolled_back']),
  reviewedBy: z.optional(z.string()),
  uncertain: z.optional(z.boolean()),
});

/** A change of a file that an agent made. */
export type FileChange = z.infer<typeof changeSchema>;

const at = (callId: string, act = ''): string => `/v1/calls/${encodeURIComponent(callId)}/change${act}`;

export const fetchChanges = async () =>
  (await request('/v1/changes?limit=200', z.object({ changes: z.array(changeSchema) }))).changes;

/** The difference that a call made, as its host reported it. */
export const fetchChangeDiff = async (callId: string) =>
  (await request(at(callId), z.extend(changeSchema, { diff: z.string() }))).diff;

export const markReviewed = (callId: string, csrf: string | undefined) =>
  change('POST', at(callId, '/review'), z.object({ state: z.string() }), { body: {}, csrf });

/** Asks for a rollback, which is a call of its own and is decided like one. */
export const requestRollback = (callId: string, csrf: string | undefined) =>
  change('POST', at(callId, '/rollback'), z.object({ callId: z.string(), state: z.string() }), {
    body: { force: false },
    csrf,
  });
