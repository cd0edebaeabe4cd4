import { createHash } from 'node:crypto';
import { z } from 'zod';

/** A person's word about one file or folder of one host. Never taken from the file itself. */
export const trustSchema = z.object({
  id: z.string(),
  what: z.enum(['file', 'folder']),
  host: z.string(),
  /** Real path. */
  path: z.string(),
  /** Of a file. */
  layer: z.enum(['project', 'local']).optional(),
  /** Of a file: hex SHA-256 of the only content that is trusted. */
  digest: z.string().optional(),
  /** Of a folder: the agent that may work in it. */
  agent: z.string().optional(),
  by: z.string(),
  at_ms: z.number(),
  /** `lapsed`: the file was seen with another content, or gone; going back to the old content does not bring it back. */
  state: z.enum(['trusted', 'revoked', 'lapsed']),
  ended_by: z.string().optional(),
  ended_ms: z.number().optional(),
});
export type Trust = z.infer<typeof trustSchema>;

/** Id of the one trust that a place can have. */
export const trustId = (parts: readonly string[]): string =>
  `tru_${createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 40)}`;
