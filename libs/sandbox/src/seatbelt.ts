import { isInside, type Places, type Profile, shallowFirst, writableRoots } from './places.ts';

/** What a Mac was found to hold. All paths are real (`/private/tmp`, `/private/var/folders/…`), absolute and exist. */
export type SeatbeltFacts = {
  readonly profile: Profile;
  readonly places: Places;
  /** Protected names, git folders, write-denied paths; those that are missing included. */
  readonly readOnly: readonly string[];
  readonly masked: readonly string[];
  /** Hardened mode: all that can be read. Absent shows everything. */
  readonly visible?: readonly string[];
  /** Port of the egress proxy on the loopback of the host, for `networked`. */
  readonly proxyPort?: number;
};

/** Services without which ordinary programs do not start: accounts, names, logs, certificates, notifications. */
const SERVICES = [
  'com.apple.system.opendirectoryd.libinfo',
  'com.apple.system.opendirectoryd.membership',
  'com.apple.system.logger',
  'com.apple.system.notification_center',
  'com.apple.trustd.agent',
];
const DEVICES = ['/dev/null', '/dev/zero', '/dev/random', '/dev/urandom', '/dev/dtracehelper'];
const ESCAPED: Readonly<Record<string, string>> = { '"': '\\"', '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/**
 * A path as a string of the profile language. SECURITY: nothing of a path can end the string: quote, backslash and control
 * characters are escaped, everything else stands for itself. Paths never become regular expressions.
 */
export function quotePath(path: string): string {
  const escaped = Array.from(path, (character) => {
    const code = character.codePointAt(0) ?? 0;
    if (ESCAPED[character] !== undefined) return ESCAPED[character];
    return code < 0x20 || code === 0x7f ? `\\x${code.toString(16).padStart(2, '0')}` : character;
  });
  return `"${escaped.join('')}"`;
}

const filters = (kind: 'subpath' | 'literal', paths: readonly string[]): string[] =>
  paths.map((path) => `  (${kind} ${quotePath(path)})`);

/** No rule at all when there is nothing for it to speak about: a rule without a filter would speak about everything. */
const rule = (head: string, lines: readonly string[]): string[] =>
  lines.length === 0 ? [] : [`(${head}`, ...lines.slice(0, -1), `${lines.at(-1)})`];

function ancestors(path: string, root: string): string[] {
  const found: string[] = [];
  for (let at = path.slice(0, path.lastIndexOf('/')); at !== root && isInside(at, root) && at !== ''; ) {
    found.push(at);
    at = at.slice(0, at.lastIndexOf('/'));
  }
  return found;
}

function networkRules({ profile, proxyPort }: SeatbeltFacts): string[] {
  if (profile === 'full-access') {
    return rule('allow network*', ['  (remote ip "*:*")', '  (local ip "*:*")', '  (remote unix-socket)']);
  }
  if (profile !== 'networked' || proxyPort === undefined) return [];
  return rule('allow network-outbound', [`  (remote ip "localhost:${proxyPort}")`]);
}

/**
 * Text of a Seatbelt profile: nothing is allowed that no rule names, and a later rule overrides an earlier one. Folders
 * above a protected path may be written and not be renamed away.
 */
export function seatbeltProfile(facts: SeatbeltFacts): string {
  const { profile, places, visible } = facts;
  const closed = [...facts.readOnly, places.installation, ...(profile === 'read-only' ? [places.project] : [])];
  const roots = writableRoots(profile, places);
  const inRoot = (path: string): boolean => roots.some((root) => isInside(path, root));
  const readOnly = shallowFirst(closed.filter(inRoot));
  const masked = shallowFirst([...facts.masked, places.state]);
  const held = [...readOnly, ...masked, ...roots];
  const pins = shallowFirst(
    roots.flatMap((root) => held.filter((path) => isInside(path, root)).flatMap((path) => ancestors(path, root))),
  );
  return [
    '(version 1)',
    '(deny default)',
    '(allow process-fork)',
    '(allow sysctl-read)',
    '(allow signal (target same-sandbox))',
    '(allow process-info* (target same-sandbox))',
    ...rule(
      'allow mach-lookup',
      SERVICES.map((name) => `  (global-name ${quotePath(name)})`),
    ),
    ...rule('allow process-exec*', filters('subpath', ['/'])),
    ...rule('allow file-read*', filters('subpath', visible ? [...visible, ...roots, places.project] : ['/'])),
    ...(visible ? rule('allow file-read-metadata', filters('subpath', ['/'])) : []),
    ...rule('allow file-write*', filters('literal', DEVICES)),
    ...rule('allow file-write*', filters('subpath', roots)),
    ...rule('deny file-write-unlink', filters('literal', pins)),
    ...rule('deny file-write*', filters('subpath', readOnly)),
    ...rule('deny file-read*', filters('subpath', masked)),
    ...rule('deny file-write*', filters('subpath', masked)),
    ...networkRules(facts),
    '',
  ].join('\n');
}

/** Program and arguments that run a command in a profile that was written to a file. */
export const seatbeltArgv = (profileFile: string, command: readonly string[]): readonly string[] => [
  ...['/usr/bin/sandbox-exec', '-f', profileFile],
  ...command,
];
