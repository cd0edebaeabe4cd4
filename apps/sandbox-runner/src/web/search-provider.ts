import { z } from 'zod';

/** A search service that answers JSON. Configured by the organisation. */
export const searchProviderSchema = z.strictObject({
  /** Address with `{query}` and, where it is wanted, `{count}` in it. */
  url: z
    .string()
    .regex(/^https?:\/\/[^\s]+$/)
    .includes('{query}')
    .max(2_048),
  /** Headers of each request, for example a key. They never reach the agent. */
  headers: z.record(z.string().regex(/^[A-Za-z0-9-]{1,64}$/), z.string().max(4_096)).optional(),
  /** Path of the list of results in the answer, for example `web.results`. */
  results: z.string().min(1).max(256),
  /** Names of the fields of one result. */
  fields: z.strictObject({ title: z.string(), url: z.string(), text: z.string() }),
});

export type SearchProvider = z.output<typeof searchProviderSchema>;
