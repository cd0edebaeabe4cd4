import { parseTarget } from '@countersign/patterns';
import { patternKind } from './tools.ts';

type Args = Readonly<Record<string, unknown>>;

const REQUIRED: Readonly<Record<string, readonly string[]>> = {
  read: ['path'],
  search: [],
  write: ['path', 'content'],
  edit: ['path', 'oldText', 'newText'],
  delete: ['path'],
  rollback: ['path', 'change'],
  bash: ['command'],
  background: ['command'],
  process: ['action'],
  python_exec: ['code'],
  web_fetch: ['url'],
  web_search: ['query'],
  browser: ['url'],
};

function profileProblem(args: Args): string | undefined {
  const { profile, hosts, reason } = args;
  if (profile !== undefined && profile !== 'workspace-write' && profile !== 'networked' && profile !== 'full-access')
    return '`profile` must be `workspace-write`, `networked` or `full-access`';
  if (hosts !== undefined && !(Array.isArray(hosts) && hosts.every((h) => typeof h === 'string' && h !== '')))
    return '`hosts` must be a list of host names';
  if (profile !== 'networked' && profile !== 'full-access' && hosts === undefined) return undefined;
  if (typeof reason !== 'string' || reason.trim() === '') return 'asking for a wider profile needs a `reason`';
  if (profile === 'networked' && (!Array.isArray(hosts) || hosts.length === 0))
    return 'profile `networked` needs `hosts`';
  return undefined;
}

/** What does not fit the tool's schema, or undefined. */
export function argumentProblem(tool: string, args: unknown, env: unknown): string | undefined {
  if (typeof args !== 'object' || args === null || Array.isArray(args)) return '`args` must be an object';
  if (
    env !== undefined &&
    (typeof env !== 'object' ||
      env === null ||
      Array.isArray(env) ||
      Object.values(env).some((v) => typeof v !== 'string'))
  )
    return '`env` must map names to strings';
  const record = args as Args;
  for (const key of Object.hasOwn(REQUIRED, tool) ? (REQUIRED[tool] ?? []) : [])
    if (typeof record[key] !== 'string') return `\`${key}\` must be a string`;
  for (const key of ['path', 'cwd', 'url'])
    if (record[key] !== undefined && (typeof record[key] !== 'string' || record[key] === ''))
      return `\`${key}\` must be a string that is not empty`;
  if ((tool === 'web_fetch' || tool === 'browser') && parseTarget(String(record.url)) === undefined)
    return '`url` must be a plain http or https address';
  return patternKind(tool) === 'command' ? profileProblem(record) : undefined;
}
