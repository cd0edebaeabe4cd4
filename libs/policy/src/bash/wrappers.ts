import type { Role, Simple } from './walk.ts';
import { literal, type Resolved, UNKNOWN } from './words.ts';

interface Opened {
  readonly own: Role;
  readonly commands: {
    readonly words: readonly Resolved[];
    readonly role: Role;
    readonly assigns: Simple['assigns'];
  }[];
  readonly scripts: { readonly text: string; readonly role: Role }[];
}

interface Wrapper {
  readonly transparent: boolean;
  /** Options that take the next word. */
  readonly valued: string;
  readonly flags: RegExp;
  /** Operands before the inner command. */
  readonly skip: number;
}

const w = (transparent: boolean, valued = '', flags = /^$/, skip = 0): Wrapper => ({
  transparent,
  valued,
  flags,
  skip,
});

const WRAPPERS: ReadonlyMap<string, Wrapper> = new Map([
  ['command', w(true, '', /^-[pvV]+$/)],
  ['builtin', w(true)],
  ['exec', w(true, '-a', /^-[cl]+$/)],
  ['time', w(true, '-o -f --output --format', /^-[pvaq]+$/)],
  ['nice', w(true, '-n --adjustment', /^(-n?-?\d+|--adjustment=-?\d+)$/)],
  ['nohup', w(true)],
  ['stdbuf', w(true, '-i -o -e', /^(-[ioe](0|L|\d+)|--(input|output|error)=\w+)$/)],
  [
    'timeout',
    w(
      true,
      '-s -k --signal --kill-after',
      /^(-v|-f|-p|--foreground|--preserve-status|--verbose|-[sk]\w+|--(signal|kill-after)=\w+)$/,
      1,
    ),
  ],
  ['setsid', w(true, '', /^-[cfw]+$|^--(ctty|fork|wait)$/)],
  ['ionice', w(true, '-c -n', /^-[cn]\d+$|^-t$/)],
  ['env', w(true, '-u --unset', /^-i$|^-$|^--ignore-environment$|^--unset=\w+$/)],
  ['sudo', w(false, '-u -g -h -p -C -r -t -U -D -R -T --user --group')],
  ['doas', w(false, '-u -C')],
  ['pkexec', w(false, '--user')],
  ['xargs', w(false, '-n -I -L -P -s -d -E -a --max-args --max-procs --replace')],
  ['chroot', w(false, '', /^$/, 1)],
  ['unshare', w(false)],
  ['nsenter', w(false, '-t -S -G')],
  ['watch', w(false, '-n --interval')],
  ['parallel', w(false, '-j')],
  ['flock', w(false, '-w -E', /^$/, 1)],
  ['strace', w(false, '-o -e -p')],
  ['busybox', w(false)],
  ['npx', w(false, '-p --package -c')],
  ['doppler', w(false)],
  ['caffeinate', w(false)],
  ['chrt', w(false, '', /^$/, 1)],
  ['taskset', w(false, '', /^$/, 1)],
  ['script', w(false)],
]);

export const SHELLS: ReadonlySet<string> = new Set(['sh', 'bash', 'zsh', 'dash', 'ksh', 'ash', 'fish']);

/** The name of a program without its directory. */
export const baseName = (text: string): string => text.slice(text.lastIndexOf('/') + 1);
const join = (words: readonly Resolved[]): string => words.map((x) => x.text).join(' ');
const nothing = (own: Role): Opened => ({ own, commands: [], scripts: [] });

function openWrapper(simple: Simple, wrapper: Wrapper, name: string): Opened {
  const words = simple.words;
  let at = 1;
  let opaque = !wrapper.transparent || (words[0]?.text ?? '').includes('/');
  const assigns = [...simple.assigns];
  const scripts: Opened['scripts'] = [];
  for (; at < words.length; at++) {
    const text = words[at]?.text ?? '';
    if (text === '--') {
      at++;
      break;
    }
    const assign = name === 'env' || name === 'sudo' ? /^([A-Za-z_]\w*)=(.*)$/s.exec(text) : null;
    if (assign?.[1] !== undefined) assigns.push({ name: assign[1], value: assign[2] ?? '' });
    else if (name === 'env' && /^(-\w*S|--split-string)/.test(text)) {
      scripts.push({ text: text.replace(/^(-\w*S|--split-string=?)/, '') + join(words.slice(at + 1)), role: 'strict' });
      opaque = true;
    } else if (text.startsWith('-')) {
      if (words[at]?.unresolved) opaque = true;
      if (wrapper.valued.split(' ').includes(text)) at++;
      else if (!wrapper.flags.test(text)) opaque = true;
    } else break;
  }
  for (let n = 0; n < wrapper.skip; n++) if (words[at++]?.unresolved) opaque = true;
  const inner = words.slice(at);
  if (inner.length === 0) return { own: 'full', commands: [], scripts };
  if (name === 'xargs') inner.push(literal(UNKNOWN));
  const commands: Opened['commands'] = [{ words: inner, role: opaque ? 'strict' : 'full', assigns }];
  if (name === 'watch') scripts.push({ text: join(inner), role: 'strict' });
  return { own: opaque ? 'full' : 'strict', commands, scripts };
}

function piped(simple: Simple): string {
  if (simple.input !== undefined) return simple.input;
  const from = simple.pipedFrom;
  const name = from?.[0]?.text;
  if (from === undefined || (name !== 'echo' && name !== 'printf')) return UNKNOWN;
  const text = join(from.slice(1).filter((x, i) => !(i === 0 && /^-[neE]+$/.test(x.text))));
  return name === 'printf' && /[%\\]/.test(text) ? (text.includes('%') ? UNKNOWN : text.replaceAll('\\n', '\n')) : text;
}

function openShell(simple: Simple): Opened {
  const words = simple.words;
  const byPath = (words[0]?.text ?? '').includes('/');
  let at = 1;
  let plain = !byPath;
  let command = false;
  for (; at < words.length; at++) {
    const text = words[at]?.text ?? '';
    if (words[at]?.unresolved && !command) break;
    if (!/^[-+]./.test(text)) break;
    if (/^-[a-zA-Z]*c[a-zA-Z]*$/.test(text)) command = true;
    if (!/^-[celxu]+$/.test(text)) plain = false;
    if (/^[-+]\w*[oO]$/.test(text) || text === '--rcfile' || text === '--init-file') at++;
  }
  if (command) {
    const text = words[at]?.text ?? UNKNOWN;
    return { own: plain ? 'strict' : 'full', commands: [], scripts: [{ text, role: plain ? 'full' : 'strict' }] };
  }
  if (at < words.length && words[at]?.text !== '-' && words[at - 1]?.text !== '-s') {
    const unknown = words.slice(1).some((x) => x.unresolved);
    return { own: 'full', commands: [], scripts: unknown ? [{ text: UNKNOWN, role: 'strict' }] : [] };
  }
  if (/^--(version|help)$/.test(words[1]?.text ?? '')) return nothing('full');
  return { own: 'full', commands: [], scripts: [{ text: piped(simple), role: 'full' }] };
}

function openFind(words: readonly Resolved[]): Opened {
  const commands: Opened['commands'] = [];
  for (let i = 1; i < words.length; i++) {
    if (!/^-(exec|execdir|ok|okdir)$/.test(words[i]?.text ?? '')) continue;
    let end = i + 1;
    while (end < words.length && words[end]?.text !== ';' && words[end]?.text !== '+') end++;
    const inner = words
      .slice(i + 1, end)
      .map((x) => (x.text.includes('{}') ? literal(x.text.replaceAll('{}', UNKNOWN)) : x));
    if (inner.length > 0) commands.push({ words: inner, role: 'strict', assigns: [] });
    i = end;
  }
  return { own: 'full', commands, scripts: [] };
}

/** What a simple command starts: the commands behind wrappers and the scripts given to shells. */
export function unwrap(simple: Simple): Opened {
  const words = simple.words;
  const name = baseName(words[0]?.text ?? '');
  const rest = words.slice(1);
  if (SHELLS.has(name)) return openShell(simple);
  const wrapper = WRAPPERS.get(name);
  if (wrapper !== undefined) return openWrapper(simple, wrapper, name);
  switch (name) {
    case 'eval':
      return { own: 'full', commands: [], scripts: [{ text: join(rest), role: 'strict' }] };
    case 'source':
    case '.':
      return { own: 'full', commands: [], scripts: [{ text: UNKNOWN, role: 'strict' }] };
    case 'trap':
      return rest.length > 1
        ? { own: 'full', commands: [], scripts: [{ text: rest[0]?.text ?? '', role: 'strict' }] }
        : nothing('full');
    case 'alias':
      return {
        own: 'full',
        commands: [],
        scripts: rest
          .filter((x) => x.text.includes('='))
          .map((x) => ({ text: x.text.slice(x.text.indexOf('=') + 1), role: 'strict' as const })),
      };
    case 'find':
      return openFind(words);
    case 'su': {
      const at = rest.findIndex((x) => x.text === '-c' || x.text === '--command');
      return at === -1
        ? nothing('full')
        : { own: 'full', commands: [], scripts: [{ text: rest[at + 1]?.text ?? UNKNOWN, role: 'strict' }] };
    }
    case 'ssh': {
      let at = 0;
      while (at < rest.length && rest[at]?.text.startsWith('-'))
        at += /^-[bcDEeFIiJLlmOopQRSWw]$/.test(rest[at]?.text ?? '') ? 2 : 1;
      const script = join(rest.slice(at + 1));
      return script === ''
        ? nothing('full')
        : { own: 'full', commands: [], scripts: [{ text: script, role: 'strict' }] };
    }
    default:
      return nothing('full');
  }
}
