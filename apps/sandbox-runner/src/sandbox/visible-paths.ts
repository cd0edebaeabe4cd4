import { realpath, stat } from 'node:fs/promises';

const ETC = ['alternatives', 'ssl', 'ca-certificates', 'resolv.conf', 'nsswitch.conf', 'hosts', 'localtime', 'passwd'];
const MINIMUM = [
  ...['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/opt'],
  ...[...ETC, 'group'].map((name) => `/etc/${name}`),
];

const exists = (name: string): Promise<boolean> =>
  stat(name).then(
    () => true,
    () => false,
  );

/** What hardened mode shows of this host: the named minimum, as far as it is there, and the project's own git folders. */
export async function visiblePaths(gitFolders: readonly string[]): Promise<readonly string[]> {
  const found = await Promise.all(MINIMUM.map(async (name) => ((await exists(name)) ? [name] : [])));
  const git = await Promise.all(gitFolders.map((folder) => realpath(folder)));
  return [...found.flat(), ...git];
}
