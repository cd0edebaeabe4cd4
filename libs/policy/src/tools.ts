import type { Action, McpTool, Rule } from './types.ts';

const ALIASES: Readonly<Record<string, string>> = {
  shell: 'bash',
  file_read: 'read',
  code_search: 'search',
  file_create: 'write',
  structured_patch: 'edit',
  http_request: 'web_fetch',
};

const ACTIONS: ReadonlyMap<string, Action> = new Map([
  ['read', 'read'],
  ['search', 'read'],
  ['write', 'write'],
  ['edit', 'write'],
  ['delete', 'delete'],
  ['rollback', 'write'],
  ['bash', 'execute'],
  ['background', 'execute'],
  ['process', 'read'],
  ['python_exec', 'execute'],
  ['web_fetch', 'network'],
  ['web_search', 'network'],
  ['browser', 'network'],
]);

/**
 * The canonical name of a tool: an alias is resolved, `{server, tool}` becomes `mcp__<server>__<tool>`. Whatever is no name
 * at all becomes the empty text, which is no tool.
 */
export function canonicalTool(name: string | McpTool): string {
  if (typeof name === 'string') return Object.hasOwn(ALIASES, name) ? (ALIASES[name] ?? name) : name;
  const { server, tool } = name ?? {};
  return typeof server === 'string' && typeof tool === 'string' ? `mcp__${server}__${tool}` : '';
}

/** The names of the known tools, aliases left out. */
export const toolNames = (): string[] => [...ACTIONS.keys()];

/** The action of a known tool; undefined for a tool nobody registered. */
export function actionOf(tool: string): Action | undefined {
  return ACTIONS.get(tool) ?? (isMcpTool(tool) ? 'execute' : undefined);
}

/** Whether the name is a well-formed `mcp__<server>__<tool>`, which can be taken apart in one way only. */
export function isMcpTool(tool: string): boolean {
  if (!tool.startsWith('mcp__')) return false;
  const [server = '', name = '', ...more] = tool.slice(5).split('__');
  return server !== '' && name !== '' && more.length === 0 && !name.startsWith('_');
}

/** The tool whose deny and ask rules also hold for a tool. */
const HEAD_OF_FAMILY: Readonly<Record<string, string>> = {
  background: 'bash',
  edit: 'write',
  delete: 'write',
  rollback: 'write',
  search: 'read',
  browser: 'web_fetch',
};

const aliasesOf = (tool: string): string[] => Object.keys(ALIASES).filter((name) => ALIASES[name] === tool);

/** Whether the name in a rule, which may end in `*`, is a tool's name or one of its aliases. */
function names(given: string, tool: string): boolean {
  if (given === tool || given === '*') return true;
  if (!given.endsWith('*')) return false;
  const stem = given.slice(0, -1);
  return tool.startsWith(stem) || aliasesOf(tool).some((name) => name.startsWith(stem));
}

/** Whether a rule speaks about a tool. Deny and ask cover the family, an allow only the tool it names. */
export function ruleCoversTool(rule: Rule, tool: string): boolean {
  if (names(rule.tool, tool)) return true;
  const shell = tool === 'bash' || tool === 'background';
  if (rule.effect === 'allow') return shell && (names(rule.tool, 'bash') || rule.tool === 'background');
  const head = Object.hasOwn(HEAD_OF_FAMILY, tool) ? HEAD_OF_FAMILY[tool] : undefined;
  return head !== undefined && names(rule.tool, head);
}

/** The vocabulary in which a tool's patterns are written. */
export function patternKind(tool: string): 'command' | 'path' | 'host' | 'none' {
  switch (ACTIONS.get(tool)) {
    case 'execute':
      return tool === 'python_exec' ? 'none' : 'command';
    case 'read':
    case 'write':
    case 'delete':
      return 'path';
    case 'network':
      return 'host';
    default:
      return 'none';
  }
}
