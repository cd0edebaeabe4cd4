import { fromWindowsPath } from '@countersign/patterns';
import type { Facts, PolicySet, SecuritySettings } from './types.ts';

export const isWindows = (facts: Facts): boolean => /^win/i.test(facts.platform);

/** The settings in force: what the caller states, tightened by what the layers say. Nothing here loosens. */
function tightened(stated: SecuritySettings, layers: Partial<SecuritySettings>): SecuritySettings {
  const listed = stated.env_allowlist?.length ? stated.env_allowlist : layers.env_allowlist;
  return {
    ...stated,
    auto_allow_bash_if_sandboxed: stated.auto_allow_bash_if_sandboxed && layers.auto_allow_bash_if_sandboxed !== false,
    dangerous_command_guard: stated.dangerous_command_guard || layers.dangerous_command_guard === true,
    block_private_network: stated.block_private_network || layers.block_private_network === true,
    hardened_mode: stated.hardened_mode || layers.hardened_mode === true,
    ...(listed === undefined ? {} : { env_allowlist: listed }),
  };
}

/** The facts as the engine judges them: folders in one spelling, settings of the layers laid over those of the session. */
export function effectiveFacts(set: PolicySet, stated: Facts): Facts {
  const security = set.security === undefined ? stated.security : tightened(stated.security, set.security);
  const windows = isWindows(stated);
  const foreign = windows || [stated.project, stated.cwd, stated.home].some((p) => /^[A-Za-z]:|^\\/.test(p));
  if (!foreign) return security === stated.security ? stated : { ...stated, security };
  const plain = (path: string): string => fromWindowsPath(path, windows).replace(/(?<=.)\/+$/, '');
  return {
    ...stated,
    security,
    project: plain(stated.project),
    cwd: plain(stated.cwd),
    home: plain(stated.home),
    realpaths: Object.fromEntries(Object.entries(stated.realpaths).map(([from, to]) => [plain(from), plain(to)])),
  };
}
