import { z } from 'zod';

/** A command of the organisation that this host runs before or after calls, outside every sandbox. */
export const hookSchema = z.strictObject({
  /** Program, by its absolute path, and its arguments. */
  command: z
    .array(z.string().min(1).max(4_096))
    .min(1)
    .max(64)
    .refine(([program]) => program?.startsWith('/') === true, 'the program is an absolute path'),
  /** Tools that it is about; empty means every tool. */
  tools: z.array(z.string().min(1).max(64)).max(64).default([]),
  timeoutMs: z.int().min(1).max(60_000).default(5_000),
});

export const hooksSchema = z.strictObject({
  before: z.array(hookSchema).max(16).default([]),
  after: z.array(hookSchema).max(16).default([]),
});

export type Hook = z.output<typeof hookSchema>;
export type HooksConfig = z.output<typeof hooksSchema>;

/** What a hook reads on its standard input, as one JSON object. */
export type HookEvent = {
  readonly event: 'before' | 'after';
  readonly call_id: string;
  readonly order_id: string;
  readonly agent: string;
  readonly session_id: string;
  readonly host: string;
  readonly tool: string;
  readonly project: string;
  readonly profile: string;
  /** Exact arguments of the call. */
  readonly args: unknown;
  /** How it ended; only after. */
  readonly outcome?: { readonly state: string; readonly code: string; readonly exit_code?: number };
};
