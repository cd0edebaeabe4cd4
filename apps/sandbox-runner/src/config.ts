import { commonConfigSchema } from '@countersign/service-kit';
import { z } from 'zod';
import { hooksSchema } from './hooks/hook.ts';
import { searchProviderSchema } from './web/search-provider.ts';

const absolutePath = z.string().startsWith('/').max(4096);

/** Configuration of a runner: one for each host and OS account. */
export const runnerConfigSchema = commonConfigSchema.extend({
  host: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/),
  /** Public NKey of the audit service; absent takes the roster's. */
  auditKey: z.string().length(56).optional(),
  journalFile: absolutePath,
  /** Account of every command, file tool and inspection; null runs them as the runner's own. */
  runAs: z.strictObject({ uid: z.int().min(1), gid: z.int().min(1), home: absolutePath }).nullable(),
  /** Folders and files that no tool may read or write. */
  masks: z.array(absolutePath).max(256),
  /** Folder of the running code, read-only in every profile. */
  installation: absolutePath,
  /** Accepted by name where commands run as the runner's own account; nothing stands between them and its keys but masks. */
  accept: z
    .array(z.enum(['full-access', 'app-guard']))
    .max(2)
    .default([]),
  /** Where `web_search` asks; absent answers that there is no provider. */
  search: searchProviderSchema.optional(),
  /** Program of the Chromium that `browser` uses; absent takes one of the usual places. */
  browser: absolutePath.optional(),
  /** Orders that need passkeys on this host; absent file: none. */
  pinsFile: absolutePath.default('/etc/countersign/pins.json'),
  maxRunning: z.int().min(1).max(64),
  /** Commands that may go on in the background at once, beside those that run. */
  maxBackground: z.int().min(0).max(256).default(16),
  /** Limits of each process that a command starts; absent means none. */
  limits: z
    .strictObject({
      /** Processor time. */
      cpuSeconds: z.int().min(1).max(86_400).optional(),
      /** Address space, bytes. */
      memoryBytes: z.int().min(16_777_216).optional(),
      /** Largest file that it may write, bytes. */
      fileBytes: z.int().min(512).optional(),
      /** Processes of the account at once. */
      processes: z.int().min(16).max(65_536).optional(),
    })
    .default({}),
  /** Commands of the organisation before and after calls, outside the sandbox. */
  hooks: hooksSchema.default({ before: [], after: [] }),
  /** Below this many free bytes beside the journal nothing starts. */
  minFreeBytes: z.int().min(0).default(67_108_864),
});

export type RunnerConfig = z.output<typeof runnerConfigSchema>;
