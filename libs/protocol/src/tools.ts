import { z } from 'zod';

const path = z.string().min(1).max(4096);
const address = z.string().min(8).max(8_192);
const text = z.string().max(524_288);

const command = {
  command: z.string().min(1).max(65_536),
  cwd: path.optional(),
  profile: z.enum(['workspace-write', 'networked', 'full-access']).optional(),
  hosts: z.array(z.string().min(1).max(253)).max(64).optional(),
  reason: z.string().min(1).max(2_000).optional(),
};

const schemas = {
  read: z.strictObject({
    path,
    first_line: z.int().min(1).max(1_000_000_000).optional(),
    max_lines: z.int().min(1).max(1_000_000).optional(),
  }),
  search: z.strictObject({
    pattern: z.string().min(1).max(4_096),
    path: path.optional(),
    glob: z.string().min(1).max(1_024).optional(),
    ignore_case: z.boolean().optional(),
    max_results: z.int().min(1).max(2_000).optional(),
  }),
  write: z.strictObject({ path, content: text }),
  edit: z.strictObject({ path, oldText: text.min(1), newText: text }),
  delete: z.strictObject({ path }),
  rollback: z.strictObject({
    path,
    change: z.string().regex(/^chg_[A-Za-z0-9]{1,60}$/),
    force: z.boolean().optional(),
  }),
  bash: z.strictObject({ ...command, timeout_ms: z.int().min(1).max(3_600_000).optional() }),
  background: z.strictObject({ ...command, timeout_ms: z.int().min(1).max(86_400_000).optional() }),
  process: z.strictObject({
    action: z.enum(['list', 'tail', 'stop']),
    id: z.string().min(1).max(64).optional(),
    max_lines: z.int().min(1).max(2_000).optional(),
  }),
  web_fetch: z.strictObject({ url: address, timeout_ms: z.int().min(1).max(60_000).optional() }),
  browser: z
    .strictObject({
      action: z.enum(['open', 'click', 'type', 'read', 'screenshot']),
      /** Where to go; for the others the page that is open. */
      url: address.regex(/^https?:\/\//i),
      /** Playwright's selector: CSS, `text=…`, `role=button[name="…"]`. */
      selector: z.string().min(1).max(1_000).optional(),
      text: z.string().max(65_536).optional(),
      /** Press Enter after typing. */
      submit: z.boolean().optional(),
      timeout_ms: z.int().min(1).max(60_000).optional(),
    })
    .refine(({ action, selector }) => selector !== undefined || (action !== 'click' && action !== 'type'))
    .refine(({ action, text }) => action !== 'type' || text !== undefined),
  web_search: z.strictObject({
    query: z.string().min(1).max(1_000),
    max_results: z.int().min(1).max(20).optional(),
  }),
} as const;

/** Tools that a runner executes. */
export type ToolName = keyof typeof schemas;

const aliases: Readonly<Record<string, ToolName>> = {
  shell: 'bash',
  file_read: 'read',
  code_search: 'search',
  file_create: 'write',
  structured_patch: 'edit',
  http_request: 'web_fetch',
};

/** The tool's own name for a name or alias; undefined when no runner executes it. */
export function normaliseTool(name: string): ToolName | undefined {
  if (Object.hasOwn(schemas, name)) return name as ToolName;
  return Object.hasOwn(aliases, name) ? aliases[name] : undefined;
}

/** Schema of a tool's arguments; unknown keys are refused. */
export const toolSchema = <Name extends ToolName>(tool: Name): (typeof schemas)[Name] => schemas[tool];

const CHANGES: ReadonlySet<string> = new Set(['write', 'edit', 'delete', 'rollback'] satisfies ToolName[]);
const READS: ReadonlySet<string> = new Set(['read', 'search'] satisfies ToolName[]);

/** True for a tool that runs a command of the agent. */
export const runsCommand = (tool: string): boolean => tool === 'bash' || tool === 'background';

/** True for a tool that changes one file. */
export const changesFile = (tool: string): boolean => CHANGES.has(tool);

/** True for a tool that is about one path of the host. */
export const namesPath = (tool: string): boolean => CHANGES.has(tool) || READS.has(tool);
