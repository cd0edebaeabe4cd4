import type { Simple } from '../bash/walk.ts';
import { UNKNOWN } from '../bash/words.ts';
import { baseName, SHELLS } from '../bash/wrappers.ts';
import { isRecursiveDelete } from './root-destroying.ts';

const PRIVILEGE = /^(sudo|su|doas|pkexec)$/;
const TAMPERING = /^(chroot|unshare|nsenter|setcap|capsh|bwrap|sandbox-exec)$/;
const HALT = /^(shutdown|reboot|halt|poweroff)$/;

const INTERPRETERS = /^(python[\d.]*|node|nodejs|deno|bun|perl|ruby|php|lua|osascript)$/;
const PLAIN = new Set(['echo', 'printf', 'cat', 'tee']);

/** Whether what comes through the pipe is text of the call itself or of a file, not fetched or decoded. */
const fromPlainText = ({ piped }: Simple): boolean => piped === undefined || piped.programs.every((p) => PLAIN.has(p));

/** Whether a here-string or here-document for a shell holds what a command prints; a file after `<` is a file. */
const isGenerated = ({ input, redirects }: Simple): boolean =>
  input?.includes(UNKNOWN) === true &&
  !redirects.some((r) => r.op === '<') &&
  (!input.endsWith(UNKNOWN) || input === UNKNOWN || /\$\(|`/.test(input));

/** `git clean` that removes whole folders. */
function cleansFolders(rest: readonly string[]): boolean {
  const at = rest.findIndex((x) => !x.startsWith('-'));
  const options = rest
    .slice(at + 1)
    .filter((x) => /^-[a-zA-Z]+$/.test(x))
    .join('');
  return rest[at] === 'clean' && options.includes('d') && options.includes('f') && !options.includes('n');
}

/** Whether a shell reads its script from standard input: it names no file, or says so with `-s`, `-` or `/dev/stdin`. */
function readsScript(rest: readonly string[]): boolean {
  const at = rest.findIndex((x) => !/^[-+]./.test(x) || x === '--');
  const options = at === -1 ? rest : rest.slice(0, at);
  if (options.some((x) => /^-\w*c/.test(x))) return false;
  return at === -1 || options.some((x) => /^-\w*s/.test(x)) || rest[at] === '-' || rest[at] === '/dev/stdin';
}

/** The risky form that a command takes, and whether it is a plain recursive delete. */
export function riskyForm(simple: Simple): { readonly form: string; readonly plainDelete: boolean } | undefined {
  const words = simple.words;
  const first = words[0];
  const name = baseName(first?.text ?? '');
  const rest = words.slice(1).map((x) => x.text);
  const risky = (form: string) => ({ form, plainDelete: false });
  if (isRecursiveDelete(words)) return { form: 'recursive delete', plainDelete: true };
  if (name === 'rm' && words.slice(1).some((x) => x.unresolved && x.text.startsWith(UNKNOWN)))
    return { form: 'delete with options that cannot be resolved', plainDelete: true };
  if (
    name === 'find' &&
    rest.some((x, i) => x === '-delete' || (/^-(exec|ok)/.test(x) && baseName(rest[i + 1] ?? '') === 'rm'))
  )
    return { form: 'deleting find', plainDelete: true };
  if (PRIVILEGE.test(name)) return risky('privilege change');
  if (TAMPERING.test(name)) return risky('sandbox tampering');
  if (name === 'pkill' || name === 'killall' || (name === 'kill' && rest.includes('-1') && rest.at(-1) === '-1'))
    return risky('broadcast kill');
  if (
    HALT.test(name) ||
    (/^(systemctl|loginctl)$/.test(name) && rest.some((x) => HALT.test(x) || /^(kexec|soft-reboot)$/.test(x))) ||
    (/^(tel)?init$/.test(name) && /^[06]$/.test(rest[0] ?? ''))
  )
    return risky('shutdown');
  if (name === 'eval' && rest.some((x) => x.includes(UNKNOWN))) return risky('running generated text');
  if (INTERPRETERS.test(name)) {
    const script = rest.find((x) => x === '-' || x === '/dev/stdin' || !x.startsWith('-') || /^-[cemprn]/.test(x));
    if ((script === undefined || script === '-' || script === '/dev/stdin') && !fromPlainText(simple))
      return risky('decode-and-run or fetch-and-run');
    if (script?.startsWith('/dev/fd/') === true) return risky('fetch-and-run');
    if (rest.some((x, i) => /^-(c|e|p|-eval|-print)$/.test(x) && (rest[i + 1] ?? '').includes(UNKNOWN)))
      return risky('running generated text');
  }
  if (SHELLS.has(name)) {
    if (rest.some((x, i) => /^-\w*c/.test(x) && (rest[i + 1] ?? '').includes(UNKNOWN)))
      return risky('running generated text');
    const stdin = readsScript(rest);
    if (stdin && !fromPlainText(simple)) return risky('decode-and-run or fetch-and-run');
    if (rest.some((x) => x.startsWith('/dev/fd/'))) return risky('fetch-and-run');
    if (stdin && isGenerated(simple)) return risky('running generated text');
  }
  if (name === 'git' && cleansFolders(rest)) return { form: 'recursive delete', plainDelete: true };
  if ((name === 'source' || name === '.') && rest.some((x) => x.startsWith('/dev/fd/'))) return risky('fetch-and-run');
  if (/^\$'.*\\/.test(first?.source ?? '')) return risky('program name in escapes');
  const flags = rest.map((x) => x.toLowerCase());
  if (/^(del|erase|rd|rmdir)$/i.test(name) && flags.some((x) => /^(\/[a-z])*\/s(\/[a-z])*$/.test(x)))
    return risky('windows recursive delete');
  if (/^format(\.com)?$/i.test(name) && /^[a-z]:/i.test(rest[0] ?? '')) return risky('windows format');
  if (/^(remove-item|ri)$/i.test(name) && flags.some((x) => x.startsWith('-r')))
    return risky('windows recursive delete');
  return undefined;
}
