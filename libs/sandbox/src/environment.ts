import type { Places } from './places.ts';

type Variables = Readonly<Record<string, string | undefined>>;

const PASSED = ['PATH', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'LANGUAGE', 'TERM', 'COLORTERM', 'NO_COLOR', 'TZ'];
const DEFAULT_PATH = '/usr/local/bin:/usr/bin:/bin';

/**
 * Variables of the sandbox: an allowlist, and folders and switches of ours.
 * SECURITY: nothing is passed that carries a credential, names a socket or makes a tool run code.
 */
export function sandboxEnvironment(source: Variables, places: Places): Readonly<Record<string, string>> {
  const passed = Object.entries(source).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined && (PASSED.includes(entry[0]) || /^LC_[A-Z]+$/.test(entry[0])),
  );
  return {
    PATH: DEFAULT_PATH,
    ...Object.fromEntries(passed),
    HOME: places.home,
    TMPDIR: places.temp,
    XDG_CACHE_HOME: places.cache,
    npm_config_cache: `${places.cache}/npm`,
    GIT_OPTIONAL_LOCKS: '0',
    GIT_TERMINAL_PROMPT: '0',
    GIT_EDITOR: 'false',
    EDITOR: 'false',
    PAGER: 'cat',
    GIT_PAGER: 'cat',
  };
}
