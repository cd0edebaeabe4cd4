import type { Places, Profile } from './places.ts';

type Variables = Readonly<Record<string, string | undefined>>;

export type EnvironmentRequest = {
  readonly profile: Profile;
  readonly places: Places;
  /** Names that the policy lets through besides; `*` at the end stands for any ending. */
  readonly names?: readonly string[];
};

const PASSED = ['PATH', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'LANGUAGE', 'TERM', 'COLORTERM', 'NO_COLOR', 'TZ'];
const DEFAULT_PATH = '/usr/local/bin:/usr/bin:/bin';
/** Port of the way out on the sandbox's own loopback. */
export const PROXY_PORT = 3128;

/** SECURITY: credentials and channels of the runner itself; no rule and no profile passes them on. */
const isOwn = (name: string): boolean => /^(COUNTERSIGN_|NODE_CHANNEL_|NODE_COMPILE_CACHE$)/.test(name);

const isNamed = (name: string, names: readonly string[]): boolean =>
  names.some((each) => (each.endsWith('*') ? name.startsWith(each.slice(0, -1)) : name === each));

function passedOn(source: Variables, { profile, names = [] }: EnvironmentRequest): Record<string, string> {
  const isPassed = (name: string): boolean =>
    profile === 'full-access' || PASSED.includes(name) || /^LC_[A-Z]+$/.test(name) || isNamed(name, names);
  const entries = Object.entries(source).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && isPassed(entry[0]) && !isOwn(entry[0]),
  );
  return Object.fromEntries(entries);
}

function proxyVariables(): Record<string, string> {
  const http = `http://127.0.0.1:${PROXY_PORT}`;
  const values = { http_proxy: http, https_proxy: http, all_proxy: `socks5h://127.0.0.1:${PROXY_PORT}`, no_proxy: '' };
  const upper = Object.entries(values).map(([name, value]) => [name.toUpperCase(), value] as const);
  return { ...values, ...Object.fromEntries(upper), NODE_USE_ENV_PROXY: '1' };
}

/**
 * Variables of the sandbox: an allowlist, and folders and switches of ours; everything but the runner's own in
 * `full-access`.
 * SECURITY: unless a policy names it, nothing is passed that carries a credential, names a socket or makes a tool run code.
 */
export function sandboxEnvironment(source: Variables, request: EnvironmentRequest): Readonly<Record<string, string>> {
  const { places, profile } = request;
  return {
    PATH: DEFAULT_PATH,
    ...passedOn(source, request),
    HOME: places.home,
    TMPDIR: places.temp,
    XDG_CACHE_HOME: places.cache,
    npm_config_cache: `${places.cache}/npm`,
    GIT_OPTIONAL_LOCKS: '0',
    GIT_TERMINAL_PROMPT: '0',
    GIT_EDITOR: 'false',
    GIT_SEQUENCE_EDITOR: 'false',
    EDITOR: 'false',
    VISUAL: 'false',
    PAGER: 'cat',
    GIT_PAGER: 'cat',
    ...(profile === 'networked' ? proxyVariables() : {}),
  };
}
