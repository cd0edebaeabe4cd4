import { z } from 'zod';

const path = z.string().min(1).max(4096);

const schemas = {
  read: z.strictObject({ path }),
  write: z.strictObject({ path, content: z.string().max(524_288) }),
  bash: z.strictObject({
    command: z.string().min(1).max(65_536),
    cwd: path.optional(),
    timeout_ms: z.int().min(1).max(3_600_000).optional(),
    profile: z.enum(['workspace-write', 'networked', 'full-access']).optional(),
    hosts: z.array(z.string().min(1).max(253)).max(64).optional(),
    reason: z.string().min(1).max(2_000).optional(),
  }),
} as const;

/** Tools that a runner executes. */
export type ToolName = keyof typeof schemas;

const aliases: Readonly<Record<string, ToolName>> = { shell: 'bash', file_read: 'read', file_create: 'write' };

/** The tool's own name for a name or alias; undefined when no runner executes it. */
export function normaliseTool(name: string): ToolName | undefined {
  if (Object.hasOwn(schemas, name)) return name as ToolName;
  return Object.hasOwn(aliases, name) ? aliases[name] : undefined;
}

/** Schema of a tool's arguments; unknown keys are refused. */
export const toolSchema = <Name extends ToolName>(tool: Name): (typeof schemas)[Name] => schemas[tool];
