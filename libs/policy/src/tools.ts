import type { Action, Rule } from './types.ts';

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
  ['python_exec', 'execute'],
  ['web_fetch', 'network'],
  ['web_search', 'network'],
  ['browser', 'network'],
]);

/** The canonical tool name behind an alias. */
export const canonicalTool = (name: string): string => (Object.hasOwn(ALIASES, name) ? (ALIASES[name] ?? name) : name);

/** The names of the known tools, aliases left out. */
export const toolNames = (): string[] => [...ACTIONS.keys()];

/** The action of a known tool; undefined for a tool nobody registered. */
export function actionOf(tool: string): Action | undefined {
  return ACTIONS.get(tool) ?? (isMcpTool(tool) ? 'execute' : undefined);
}

/** Whether the name is a well-formed `mcp__<server>__<tool>`. */
export function isMcpTool(tool: string): boolean {
  if (!tool.startsWith('mcp__')) return false;
  const parts = tool.slice(5).split('__');
  return parts.length === 2 && parts.every((p) => p !== '');
}

const FAMILY: Readonly<Record<string, readonly string[]>> = {
  bash: ['background'],
  background: ['bash'],
  write: ['edit', 'delete', 'rollback'],
  read: ['search'],
  web_fetch: ['browser'],
};

/** Whether a rule speaks about a tool. Deny and ask cover the family, an allow only the tool it names. */
export function ruleCoversTool(rule: Rule, tool: string): boolean {
  if (rule.tool === tool || rule.tool === '*') return true;
  if (rule.tool.endsWith('*')) return tool.startsWith(rule.tool.slice(0, -1));
  const shell = rule.tool === 'bash' || rule.tool === 'background';
  if (rule.effect === 'allow') return shell && (tool === 'bash' || tool === 'background');
  return (FAMILY[rule.tool] ?? []).includes(tool);
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
