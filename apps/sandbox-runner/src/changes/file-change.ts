import { z } from 'zod';

const fileState = z.strictObject({
  /** Hex SHA-256 of the content. */
  digest: z.string().regex(/^[0-9a-f]{64}$/),
  size: z.int().min(0),
  mode: z.int().min(0).max(0o777),
});

/** One change that a file tool made. `before` and `after` are null where there was, or is, no file. */
export const fileChangeSchema = z.strictObject({
  id: z.string().regex(/^chg_[A-Za-z0-9]{1,60}$/),
  callId: z.string().min(1).max(64),
  project: z.string().startsWith('/').max(4_096),
  /** Real path. */
  path: z.string().startsWith('/').max(4_096),
  before: fileState.nullable(),
  after: fileState.nullable(),
  atMs: z.int().min(0),
  /** Change that this one took back. */
  rollsBack: z.string().max(64).optional(),
  /** True when a crash left it open whether the change took place and the file has changed since. */
  uncertain: z.boolean().optional(),
});

export type FileChange = z.infer<typeof fileChangeSchema>;
export type FileState = z.infer<typeof fileState>;
