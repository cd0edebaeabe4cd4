import type { Facts, PolicySet } from './types.ts';

const HARMLESS =
  /^(DEBUG|CI|NODE_ENV|LANG|LC_\w+|TZ|TERM|NO_COLOR|FORCE_COLOR|COLUMNS|VERBOSE|LOG_LEVEL|RUST_LOG|RUST_BACKTRACE|PORT)$/;

/** Names that hold secrets, and names through which a program can be made to run something else. */
const CREDENTIAL = /(_|^)(TOKENS?|SECRETS?|KEYS?|PASSWORDS?|PASSWD|CREDENTIALS?)$/i;
const STEERING =
  /^(PATH|IFS|ENV|BASH_ENV|SHELLOPTS|BASHOPTS|PS4|HOME|SHELL|EDITOR|PAGER|LD_|DYLD_|GIT_|NODE_OPTIONS|PYTHON|PERL|RUBY)/i;

const DEFAULT_NAMES = ['HOME', 'LANG', 'LC_*', 'LOGNAME', 'PATH', 'SHELL', 'TERM', 'TMPDIR', 'TZ', 'USER'];

/** Whether an assignment survives under an allow rule. The organisation may add names, but none that steers or is secret. */
export const isHarmlessName = (name: string, set: PolicySet): boolean =>
  HARMLESS.test(name) || (set.harmlessNames?.includes(name) === true && !CREDENTIAL.test(name) && !STEERING.test(name));

/** The environment names that a command gets from its host, sorted; `*` stands for any ending. */
export function environmentNames(facts: Facts): readonly string[] {
  const given = facts.security.env_allowlist ?? [];
  return (given.length === 0 ? DEFAULT_NAMES : [...new Set(given)]).filter((name) => !CREDENTIAL.test(name)).sort();
}
