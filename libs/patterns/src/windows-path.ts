const DRIVE = /^([A-Za-z]):(\/|$)/;

/** A name as Windows stores it: without a stream, and without the blanks and dots that it drops at the end. */
const stored = (part: string): string => {
  const name = part.split(':')[0] ?? '';
  return /^\.{1,2}$/.test(name) ? name : name.replace(/[. ]+$/, '');
};

/**
 * Rewrites a path as Windows spells it to one with slashes: `C:\a` and `\\?\C:\a` become `/c:/a`, `\\wsl.localhost\D\a`
 * becomes `/a`, another share `/unc:/…`. Only a drive or a leading `\\` is looked for, unless `windows` says that the host
 * is one: then every backslash parts names and `/c/a` and `/mnt/c/a` are the drive too.
 */
export function fromWindowsPath(path: string, windows: boolean): string {
  if (!windows && !/^(?:[A-Za-z]:[\\/]|\\\\)/.test(path)) return path;
  let p = path
    .replaceAll('\\', '/')
    .replace(/^\/\/[?.]\/(UNC\/)?/i, (_, unc?: string) => (unc === undefined ? '' : '//'));
  const share = /^\/\/wsl(?:\.localhost|\$)\/[^/]+(\/.*)?$/is.exec(p);
  if (share !== null) return share[1] ?? '/';
  if (p.startsWith('//')) return `/unc:${p.slice(1).split('/').map(stored).join('/')}`;
  if (windows) p = p.replace(/^(?:\/mnt|\/cygdrive)?\/([A-Za-z])(?=\/|$)/, '$1:');
  const drive = DRIVE.exec(p);
  if (drive === null) return windows ? p.split('/').map(stored).join('/') : p;
  return `/${drive[1]?.toLowerCase()}:/${p.slice(3).split('/').map(stored).join('/')}`;
}

/** Whether a name could be the short form that Windows keeps for a longer one, as `PROGRA~1` is for `Program Files`. */
export function couldBeShortName(name: string, long: string): boolean {
  const m = /^([^~.]{1,6})~\d{1,6}(?:\.(.{1,3}))?$/.exec(name);
  if (m?.[1] === undefined) return false;
  const plain = long.toLowerCase().replaceAll(/[ .]/g, '');
  const wild = plain.search(/[*?]/);
  const stem = m[1].toLowerCase();
  return wild === -1 ? plain.startsWith(stem) : plain.slice(0, wild).startsWith(stem.slice(0, wild));
}
