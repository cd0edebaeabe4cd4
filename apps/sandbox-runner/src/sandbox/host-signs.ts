import { existsSync, readFileSync } from 'node:fs';
import type { HostSigns } from '@countersign/sandbox';

function setting(name: string): string | undefined {
  try {
    return readFileSync(`/proc/sys/${name}`, 'utf8').trim();
  } catch {
    return undefined;
  }
}

/** Settings of this host that decide whether a sandbox can start. */
export function hostSigns(): HostSigns {
  const most = setting('user/max_user_namespaces');
  return {
    apparmorRestrictsUserns: setting('kernel/apparmor_restrict_unprivileged_userns') === '1',
    maxUserNamespaces: most === undefined ? undefined : Number(most),
    forbidsUnprivilegedUserns: setting('kernel/unprivileged_userns_clone') === '0',
    isContainer: ['/.dockerenv', '/run/.containerenv'].some(existsSync) || process.env.container !== undefined,
  };
}
