import { z } from 'zod';

/** Configuration of the Guardian. Without a provider every review is answered `misconfigured`. */
export const guardianConfigSchema = z.strictObject({
  logLevel: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal']).default('info'),
  listen: z.strictObject({ host: z.string().min(1), port: z.int().min(0).max(65_535) }),
});

export type GuardianConfig = z.output<typeof guardianConfigSchema>;
