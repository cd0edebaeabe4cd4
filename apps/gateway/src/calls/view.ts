import { z } from 'zod';

/** What an approver decides on, kept with the call; its SHA-256 is the view digest. Texts are masked. */
export const viewSchema = z.object({
  reasons: z.array(z.string()),
  profile: z.string(),
  realPath: z.string().optional(),
  diff: z.string().optional(),
  obligations: z.object({ deny_read: z.array(z.string()), deny_write: z.array(z.string()), timeout_ms: z.number() }),
  preconditions: z.array(z.object({ path: z.string(), real_path: z.string(), content_digest: z.string() })),
});

export type View = z.infer<typeof viewSchema>;

/** Reads a stored view; undefined when there is none. Throws when it does not have the expected form. */
export const readView = (bytes: Uint8Array): View | undefined =>
  bytes.length === 0 ? undefined : viewSchema.parse(JSON.parse(new TextDecoder().decode(bytes)));
