/** A Linux of the Windows host in which bubblewrap runs. */
export type Wsl2Host = { readonly distribution: string; readonly user: string };

/** The path of a Windows folder as WSL2 shows it: `C:\work` is `/mnt/c/work`. Undefined for what is on no drive. */
export function wslPath(windows: string): string | undefined {
  const match = /^([A-Za-z]):[\\/](.*)$/s.exec(windows);
  if (!match || /[<>"|?*\0]/.test(match[2] ?? '') || /(^|[\\/])\.\.?([\\/]|$)/.test(match[2] ?? '')) return undefined;
  const rest = (match[2] ?? '').split(/[\\/]+/).filter(Boolean);
  return ['/mnt', (match[1] ?? '').toLowerCase(), ...rest].join('/');
}

/**
 * Program and arguments on Windows for a sandbox in WSL2. `--exec` starts the program without a shell, and the environment
 * is emptied, because WSL passes on what `WSLENV` names.
 */
export const wsl2Argv = (
  host: Wsl2Host,
  bubblewrap: readonly string[],
  environment: Readonly<Record<string, string>>,
) => [
  ...['wsl.exe', '--distribution', host.distribution, '--user', host.user, '--cd', '/', '--exec', '/usr/bin/env', '-i'],
  ...Object.entries(environment).map(([name, value]) => `${name}=${value}`),
  ...bubblewrap,
];
