import { serverTlsSchema } from '@countersign/service-kit';
import { z } from 'zod';

const name = z.string().min(1).max(128);

const providerSchema = z.strictObject({
  /** What sessions call this provider. */
  name,
  kind: z.enum(['openai', 'anthropic', 'ollama']),
  baseUrl: z.url({ protocol: /^https?$/ }),
  /** File that holds the key and nothing else; readable by its owner only. */
  apiKeyFile: z.string().min(1).optional(),
  /** Environment variable that holds the key, instead of a file. */
  apiKeyVariable: z
    .string()
    .regex(/^[A-Z][A-Z0-9_]{0,127}$/)
    .optional(),
  /** Models that may review, by exact name. */
  models: z.array(name).min(1).max(100),
  /** `stream_only`: the endpoint refuses requests that do not stream, so it cannot review. */
  completion: z.enum(['once', 'stream_only']),
  /** False for endpoints without structured output; answers are checked just as strictly. */
  structuredOutput: z.boolean().default(true),
  maxOutputTokens: z.int().min(64).max(32_768).default(1_024),
});

const limitsSchema = z.strictObject({
  concurrent: z.int().min(1).max(256).default(8),
  waiting: z.int().min(0).max(10_000).default(512),
  requestsPerSession: z.int().min(1).max(100_000).default(500),
  requestsPerHour: z.int().min(1).max(100_000).default(2_000),
  /** Denials in a row after which a session is paused and a person is called. */
  denialsInRow: z.int().min(1).max(100).default(5),
  /** Faults in a row after which a provider is left alone for `breakerOpenMs`. */
  breakerFaults: z.int().min(1).max(100).default(5),
  breakerOpenMs: z.int().min(1).max(3_600_000).default(30_000),
});

/** Configuration of the Guardian. Without a provider every review is answered `misconfigured`. */
export const guardianConfigSchema = z.strictObject({
  logLevel: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal']).default('info'),
  listen: z.strictObject({ host: z.string().min(1), port: z.int().min(0).max(65_535) }),
  /** Absent: it listens on loopback alone. */
  tls: serverTlsSchema.optional(),
  providers: z
    .array(providerSchema)
    .max(50)
    .refine((list) => new Set(list.map((entry) => entry.name)).size === list.length, 'provider names must differ')
    .default([]),
  /** Reviews use this model whatever the session says. */
  pin: z.strictObject({ provider: name, model: name }).optional(),
  deadlineMs: z.int().min(1).max(30_000).default(30_000),
  tries: z.int().min(1).max(3).default(3),
  /** Every approval needs a second review of agent, role and task; a request can only switch this on. */
  identityJudge: z.boolean().default(false),
  limits: limitsSchema.prefault({}),
  /** File in which spent budgets outlive the service; absent: they start anew with it. */
  stateFile: z.string().min(1).optional(),
});

export type GuardianConfig = z.output<typeof guardianConfigSchema>;
export type ProviderConfig = z.output<typeof providerSchema>;
export type Limits = z.output<typeof limitsSchema>;

/** Keys that the environment holds, by provider. SECURITY: read here once; nothing logs or repeats them. */
export function keysOfEnvironment(config: GuardianConfig, environment = process.env): ReadonlyMap<string, string> {
  return new Map(
    config.providers.flatMap(({ name: provider, apiKeyVariable }): [string, string][] => {
      const key = apiKeyVariable === undefined ? undefined : environment[apiKeyVariable];
      return key === undefined ? [] : [[provider, key]];
    }),
  );
}
