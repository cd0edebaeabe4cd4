import { parseArgs } from 'node:util';
import type { SandboxRequest } from './prepare-run.ts';

export const USAGE = `usage: countersign sandbox exec [OPTION]... -- COMMAND [ARG]...
       countersign sandbox argv [OPTION]... -- COMMAND [ARG]...
       countersign sandbox doctor

  --profile P        read-only, workspace-write (default), networked, full-access
  --project DIR      the project; the working folder when absent
  --deny-read RULE   path rule whose matches cannot be read; --mask is the same
  --deny-write RULE  path rule whose matches cannot be written
  --host PATTERN     host that networked may reach, for example *.example.com or 192.0.2.1:8080
  --block-private    networked reaches no private address, also no listed one
  --hardened         show a named minimum of the host only
  --unix mask        AF_UNIX works inside; every socket of the host is masked
  --private-temp     an empty temp folder for this run
  --private-cache    a cache folder for this project alone`;

const OPTIONS = {
  profile: { type: 'string' },
  project: { type: 'string' },
  mask: { type: 'string', multiple: true },
  'deny-read': { type: 'string', multiple: true },
  'deny-write': { type: 'string', multiple: true },
  host: { type: 'string', multiple: true },
  unix: { type: 'string' },
  hardened: { type: 'boolean' },
  'block-private': { type: 'boolean' },
  'private-temp': { type: 'boolean' },
  'private-cache': { type: 'boolean' },
} as const;

export type Invocation = { readonly request: SandboxRequest; readonly command: readonly string[] };

type Surroundings = Pick<SandboxRequest, 'installation' | 'environment'> & { readonly cwd: string };

/** SECURITY: hardened mode of the environment is a lock that no option undoes. */
const isHardened = (value: string | undefined): boolean => value === '1' || value === 'true';

/** What the arguments ask for; undefined when they are no arguments of ours. */
export function parseInvocation(args: readonly string[], surroundings: Surroundings): Invocation | undefined {
  const { installation, environment, cwd } = surroundings;
  const end = args.indexOf('--');
  try {
    const own = end < 0 ? [...args] : args.slice(0, end);
    const { values } = parseArgs({ args: own, options: OPTIONS, allowPositionals: false });
    if (values.unix !== undefined && values.unix !== 'mask') return undefined;
    const request: SandboxRequest = {
      project: values.project ?? cwd,
      profile: values.profile ?? 'workspace-write',
      masks: [...(values.mask ?? []), ...(values['deny-read'] ?? [])],
      denyWrite: values['deny-write'] ?? [],
      hosts: values.host ?? [],
      blockPrivateNetwork: values['block-private'] ?? false,
      hardened: (values.hardened ?? false) || isHardened(environment.COUNTERSIGN_HARDENED_MODE),
      ...(values.unix === 'mask' ? { unixSockets: 'mask' as const } : {}),
      privateTemp: values['private-temp'] ?? false,
      privateCache: values['private-cache'] ?? false,
      installation,
      environment,
    };
    return { request, command: end < 0 ? [] : args.slice(end + 1) };
  } catch {
    return undefined;
  }
}
