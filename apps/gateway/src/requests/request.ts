import { createHash } from 'node:crypto';
import { z } from 'zod';
import { updatesSchema } from './updates.ts';

const common = {
  id: z.string(),
  agent: z.string(),
  /** Person for whom the agent acts; never the one who approves. */
  principal: z.string(),
  host: z.string(),
  /** Queue of the agent; who may read it sees the request. */
  queue: z.string(),
  /** What the agent says it is for; masked. */
  reason: z.string(),
  at_ms: z.number(),
  /** Key that signed it. */
  key: z.string().optional(),
  /** Nobody can approve it from then on. */
  until_ms: z.number(),
  state: z.enum(['waiting', 'approved', 'denied', 'expired', 'cancelled']),
  decided_by: z.enum(['human', 'eternal', 'timeout', 'session', 'revocation']).optional(),
  /** Who decided; empty for nobody. */
  by: z.string().optional(),
  decided_ms: z.number().optional(),
  /** Why it was denied or ended; told to the agent. */
  answer: z.string().optional(),
};

/** Something that an agent asks a person for, other than a call. Kept in the record; the answer changes it once. */
export const requestSchema = z.discriminatedUnion('kind', [
  z.object({
    ...common,
    kind: z.literal('update'),
    session: z.string(),
    /** Id that the agent gave its request. */
    request: z.string(),
    project: z.string(),
    updates: updatesSchema,
  }),
  z.object({
    ...common,
    kind: z.literal('folder'),
    path: z.string(),
    /** Session that was refused for it first; it can be opened once the folder is trusted. */
    opens: z.string(),
  }),
]);
export type PermissionRequest = z.infer<typeof requestSchema>;
export type UpdateRequest = Extract<PermissionRequest, { kind: 'update' }>;
export type FolderRequest = Extract<PermissionRequest, { kind: 'folder' }>;

/** Id of what is asked: the same for a resend, at every gateway. */
export const requestId = (parts: readonly string[]): string =>
  `req_${createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 40)}`;
