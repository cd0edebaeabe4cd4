import type { Role, Simple } from './walk.ts';
import { literal, type Resolved, UNKNOWN } from './words.ts';

export interface Script {
  readonly text: string;
  readonly role: Role;
  /** The text came from standard input, so that nothing of it is left for what it starts. */
  readonly fromInput?: boolean;
  /** It runs at another time than where it stands. */
  readonly later?: boolean;
}

interface Opened {
  readonly own: Role;
  readonly commands: {
    readonly words: readonly Resolved[];
    readonly role: Role;
    readonly assigns: Simple['assigns'];
    /** Where it runs, if the wrapper says so. */
    readonly folder?: Resolved;
    /** Its standard input was read by what starts it. */
    readonly spent?: boolean;
  }[];
  readonly scripts: Script[];
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
  ['env', w(true, '-u --unset -C --chdir')],
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
  ['setpriv', w(false, '--reuid --regid --groups --inh-caps --bounding-set')],
  ['runuser', w(false, '-u -g -G --user --group')],
  ['gosu', w(false, '', /^$/, 1)],
  ['ltrace', w(false, '-o -e -p')],
  ['unbuffer', w(false)],
  ['fakeroot', w(false)],
  ['proxychains', w(false)],
  ['proxychains4', w(false)],
  ['dbus-run-session', w(false)],
  ['systemd-run', w(false, '-u -p --unit --property')],
  ['noglob', w(false)],
  ['nocorrect', w(false)],
  ['sg', w(false, '', /^$/, 1)],
  ['torsocks', w(false)],
  ['cpulimit', w(false, '-l')],
  ['prlimit', w(false)],
  ['numactl', w(false)],
  ['dotenv', w(false, '-f -e')],
  ['entr', w(false)],
  ['perf', w(false, '-e', /^$/, 1)],
  ['pkexec', w(false, '--user')],
  ['tmux', w(false, '', /^$/, 1)],
  ['hyperfine', w(false)],
]);

export const SHELLS: ReadonlySet<string> = new Set(['sh', 'bash', 'zsh', 'dash', 'ksh', 'ash', 'fish']);

/** The name of a program without its directory. */
export const baseName = (text: string): string => text.slice(text.lastIndexOf('/') + 1);
const join = (words: readonly Resolved[]): string => words.map((x) => x.text).join(' ');
const nothing = (own: Role): Opened => ({ own, commands: [], scripts: [] });

/** Wrappers that hand their operands to a shell. */
const RUNS_TEXT = /^(watch|hyperfine|tmux|sg)$/;
const TEXT_OPTION = /^(-[a-zA-Z]*c|--command|--session-command|--run)(=(.*))?$/s;

/** Scripts given to an option that hands its value to a shell. */
function optionScripts(words: readonly Resolved[]): Script[] {
  return words.flatMap((word, i): Script[] => {
    const m = TEXT_OPTION.exec(word.text);
    if (m === null) return [];
    return [{ text: m[2] === undefined ? (words[i + 1]?.text ?? UNKNOWN) : (m[3] ?? ''), role: 'strict' }];
  });
}

/** The folder in which a wrapper starts its command. */
function folderOption(name: string, options: readonly Resolved[]): Resolved | undefined {
  const wanted =
    name === 'env' ? /^(?:-C|--chdir)(?:=?(.+))?$/s : name === 'sudo' ? /^(?:-D|--chdir)(?:=?(.+))?$/s : undefined;
  if (wanted === undefined) return undefined;
  for (const [i, option] of options.entries()) {
    const m = wanted.exec(option.text);
    if (m !== null) return m[1] === undefined ? (options[i + 1] ?? literal(UNKNOWN)) : literal(m[1]);
  }
  return undefined;
}

/** Puts what xargs reads where it will stand: in the place of the marker, else behind the words. */
function fillFromInput(inner: Resolved[], options: readonly Resolved[]): void {
  const at = options.findIndex((x) => /^(-I|-i|--replace)/.test(x.text));
  if (at === -1) {
    inner.push(literal(UNKNOWN));
    return;
  }
  const text = options[at]?.text ?? '';
  const given = text === '-I' ? options[at + 1]?.text : text.replace(/^(-I|-i|--replace=?)/, '');
  const marker = given === undefined || given === '' ? '{}' : given;
  inner.forEach((word, i) => {
    if (word.text.includes(marker)) inner[i] = literal(word.text.replaceAll(marker, UNKNOWN));
  });
}

const MAX_GIVEN = 32;
const MAX_GIVEN_TEXT = 4_096;

/** What xargs starts with the words that it is known to read, all of them and each alone, and with what a find finds. */
function fromXargs(simple: Simple, inner: readonly Resolved[], options: readonly Resolved[]): Resolved[][] {
  const found = simple.piped?.found;
  const each = found === undefined ? [] : [[...found, literal('-exec'), ...inner, literal(UNKNOWN), literal(';')]];
  const text = simple.input ?? simple.piped?.text ?? UNKNOWN;
  const unread = text.length > MAX_GIVEN_TEXT || text.includes(UNKNOWN) || /['"\\]/.test(text);
  const known = unread ? [] : text.split(/[\s\0,]+/).filter((x) => x !== '');
  const marked = options.some((x) => /^(-I|-i|--replace)/.test(x.text));
  const given = [...(known.length > 1 ? [known] : []), ...known.slice(0, MAX_GIVEN).map((x) => [x])];
  const filled = given.map((list) =>
    marked
      ? inner.map((word) => ({ ...word, text: word.text.replaceAll('{}', list.join(' ')) }))
      : [...inner, ...list.map(literal)],
  );
  return [...each, ...filled];
}

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
      if (words[at]?.unresolved || name === 'env') opaque = true;
      if (wrapper.valued.split(' ').includes(text)) {
        at++;
        if (words[at]?.unresolved) opaque = true;
      } else if (!wrapper.flags.test(text)) opaque = true;
    } else break;
  }
  for (let n = 0; n < wrapper.skip; n++) if (words[at++]?.unresolved) opaque = true;
  const inner = words.slice(at);
  if (/^(flock|script|runuser|nix-shell)$/.test(name)) scripts.push(...optionScripts(words.slice(1)));
  if (inner.length === 0) return { own: 'full', commands: [], scripts };
  const given = name === 'xargs' ? fromXargs(simple, inner, words.slice(1, at)) : [];
  if (name === 'xargs') fillFromInput(inner, words.slice(1, at));
  const folder = folderOption(name, words.slice(1, at));
  const commands: Opened['commands'] = [
    { words: inner, role: opaque ? 'strict' : 'full', assigns, ...(folder === undefined ? {} : { folder }) },
    ...given.map((known) => ({ words: known, role: 'strict' as const, assigns, spent: true })),
  ];
  if (RUNS_TEXT.test(name)) scripts.push({ text: join(inner), role: 'strict' });
  return { own: opaque ? 'full' : 'strict', commands, scripts };
}

/** The script that a shell reads from its standard input. */
const fromInput = (simple: Simple, role: Role): Script => ({
  text: simple.input ?? simple.piped?.text ?? UNKNOWN,
  role,
  fromInput: true,
});

const hasInput = (simple: Simple): boolean => simple.input !== undefined || simple.piped !== undefined;
const scripts = (...list: Script[]): Opened => ({ own: 'full', commands: [], scripts: list });

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
  const input = words[at]?.text === '-' || words[at]?.text === '/dev/stdin';
  if (at < words.length && !input && words[at - 1]?.text !== '-s') {
    const unknown = words.slice(1).some((x) => x.unresolved);
    return { own: 'full', commands: [], scripts: unknown ? [{ text: UNKNOWN, role: 'strict' }] : [] };
  }
  if (/^--(version|help)$/.test(words[1]?.text ?? '')) return nothing('full');
  return scripts(fromInput(simple, 'full'));
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
    const folder = /dir$/.test(words[i]?.text ?? '') ? { folder: literal(UNKNOWN) } : {};
    if (inner.length > 0) commands.push({ words: inner, role: 'strict', assigns: [], ...folder });
    i = end;
  }
  return { own: 'full', commands, scripts: [] };
}

function openPowerShell(rest: readonly Resolved[]): Opened {
  const at = rest.findIndex((x) => /^[-/](c|command|e|ec|en|enc|encodedcommand|f|file)$/i.test(x.text));
  if (at === -1) return rest.length === 0 ? nothing('full') : scripts({ text: join(rest), role: 'strict' });
  const plain = /^[-/]c/i.test(rest[at]?.text ?? '');
  return scripts({ text: plain ? join(rest.slice(at + 1)) : UNKNOWN, role: 'strict' });
}

/** What a simple command starts: the commands behind wrappers and the scripts given to shells. */
export function unwrap(simple: Simple): Opened {
  const words = simple.words;
  const name = baseName(words[0]?.text ?? '');
  const rest = words.slice(1);
  if (SHELLS.has(name)) return openShell(simple);
  if (name === 'command' && /^-[pvV]*[vV]/.test(rest[0]?.text ?? '')) return nothing('full');
  const wrapper = WRAPPERS.get(name);
  if (wrapper !== undefined) return openWrapper(simple, wrapper, name);
  switch (name) {
    case 'eval':
      return scripts({ text: join(rest[0]?.text === '--' ? rest.slice(1) : rest), role: 'strict' });
    case 'source':
    case '.':
      return rest[0]?.text === '/dev/stdin'
        ? scripts(fromInput(simple, 'strict'))
        : scripts({ text: UNKNOWN, role: 'strict' });
    case 'enable':
      return rest.some((x) => /^-\w*f/.test(x.text)) ? scripts({ text: UNKNOWN, role: 'strict' }) : nothing('full');
    case 'at':
    case 'batch':
      return scripts(fromInput(simple, 'strict'));
    case 'cmd':
    case 'cmd.exe':
      return scripts({
        text: join(rest.filter((x) => !/^\/[a-z]$/i.test(x.text) || /^\/s$/i.test(x.text))),
        role: 'strict',
      });
    case 'powershell':
    case 'powershell.exe':
    case 'pwsh':
      return openPowerShell(rest);
    case 'nix-shell':
      return scripts(...optionScripts(rest));
    case 'trap': {
      const action = rest.filter((x, i) => !(i === 0 && x.text === '--'));
      return action.length > 1
        ? scripts({ text: action[0]?.text ?? '', role: 'strict', later: true })
        : nothing('full');
    }
    case 'alias':
      return {
        own: 'full',
        commands: [],
        scripts: rest
          .filter((x) => x.text.includes('='))
          .map((x) => ({ text: x.text.slice(x.text.indexOf('=') + 1), role: 'strict' as const, later: true })),
      };
    case 'find':
      return openFind(words);
    case 'su': {
      const given = optionScripts(rest);
      return given.length === 0 && hasInput(simple) ? scripts(fromInput(simple, 'strict')) : scripts(...given);
    }
    case 'ssh': {
      let at = 0;
      while (at < rest.length && rest[at]?.text.startsWith('-'))
        at += /^-[bcDEeFIiJLlmOopQRSWw]$/.test(rest[at]?.text ?? '') ? 2 : 1;
      const behind = rest.slice(at + 1);
      const script = join(behind[0]?.text === '--' ? behind.slice(1) : behind);
      if (script !== '') return scripts({ text: script, role: 'strict' });
      return hasInput(simple) ? scripts(fromInput(simple, 'strict')) : nothing('full');
    }
    default:
      return nothing('full');
  }
}
