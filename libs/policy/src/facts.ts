import type { Facts, SecuritySettings } from './types.ts';

export const DEFAULT_SECURITY: SecuritySettings = {
  auto_allow_bash_if_sandboxed: true,
  dangerous_command_guard: false,
  block_private_network: false,
  hardened_mode: false,
};

/** Facts of an ordinary session; every field may be replaced. */
export function defaultFacts(): Facts {
  return {
    project: '/home/dev/app',
    cwd: '/home/dev/app',
    home: '/home/dev',
    platform: 'linux',
    sandboxed: true,
    approvalMode: 'manual',
    eternal: false,
    security: DEFAULT_SECURITY,
    realpaths: {},
    caseInsensitive: false,
    grants: [],
  };
}
