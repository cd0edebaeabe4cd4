import { canonicalHost, compileHostPattern, normalisePath } from '@countersign/patterns';
import { realPathOf } from './look-up.ts';
import { covers, type PathRules } from './path-rules.ts';

/** Most words of a command that are looked at; a longer one is refused. */
export const MAX_WORDS = 20_000;

const SEPARATORS = /[\s;|&<>()=,:{}$]+/;
const QUOTES = /['"`\\]/;
const ADDRESS = /([a-z][a-z0-9+.-]*):\/\/([^\s'"`;|&<>()\\/?#]+)/gi;
const PORTS: Readonly<Record<string, number>> = { http: 80, ws: 80, ftp: 21, ssh: 22, 'git+ssh': 22 };

/** Words of a command, with the quotes as separators and again without them. Undefined when there are too many. */
function wordsOf(command: string): ReadonlySet<string> | undefined {
  const split = command.split(new RegExp(`${SEPARATORS.source}|${QUOTES.source}`));
  const joined = command.replaceAll(new RegExp(QUOTES.source, 'g'), '').split(SEPARATORS);
  const words = new Set([...split, ...joined].filter((word) => word !== '' && word !== undefined));
  return words.size > MAX_WORDS ? undefined : words;
}

export type NamedPlace = { readonly cwd: string; readonly home: string };

/**
 * The first path that a command names and a rule covers, by its own name or by what it leads to. Only what stands there
 * plainly is found: a name that a program puts together is not.
 */
export function deniedPath(
  command: string,
  rules: readonly PathRules[],
  { cwd, home }: NamedPlace,
): string | undefined {
  const words = wordsOf(command);
  if (words === undefined) return `more than ${MAX_WORDS} words`;
  for (const word of words) {
    const full = normalisePath(word, cwd, home);
    const real = realPathOf(full);
    const isDenied = rules.some((each) => covers(each, full) || (real !== undefined && covers(each, real)));
    if (isDenied) return word;
  }
  return undefined;
}

/** The first host that a command names in an address and that is not among `hosts`. */
export function deniedHost(command: string, hosts: readonly string[]): string | undefined {
  const patterns = hosts.map(compileHostPattern).filter((pattern) => pattern !== undefined);
  for (const [, scheme = '', authority = ''] of command.matchAll(ADDRESS)) {
    const [, name = '', port] = /^(?:[^@]*@)?(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(authority) ?? [];
    const host = canonicalHost(name);
    const target = { host: host ?? '', port: Number(port ?? PORTS[scheme.toLowerCase()] ?? 443), path: '/' };
    if (host === undefined || !patterns.some((pattern) => pattern.matches(target, false))) return authority;
  }
  return undefined;
}
