import type { Simple } from './walk.ts';
import { literal, type Resolved, UNKNOWN } from './words.ts';
import { baseName } from './wrappers.ts';

/** Programs that treat their arguments as data and start none of them. */
const DATA = new Set(
  'echo printf grep egrep fgrep rg sed awk git test [ [[ cat head tail ls wc sort uniq cut tr true false : cd pwd mkdir rm cp mv ln touch chmod chown tee diff stat file basename dirname date export declare readonly local typeset set unset read npm pnpm yarn cargo make node python python3 curl wget tar unzip zip patch jq sleep kill return exit find alias trap dd install rsync scp gh truncate which type'.split(
    ' ',
  ),
);

/** Programs known to write nothing, apart from options judged separately. */
const READERS = new Set(
  'echo printf grep egrep fgrep rg sed awk test [ cat head tail ls wc sort uniq cut tr true false : cd pwd diff stat file basename dirname date export declare readonly local typeset set unset read jq sleep return exit find alias trap which type source . env id whoami cmp md5sum sha256sum less more du df ps tree'.split(
    ' ',
  ),
);

export const takesData = (name: string): boolean => DATA.has(name);

/** Whether a command only reads. */
export function onlyReads(words: readonly Resolved[]): boolean {
  const name = baseName(words[0]?.text ?? '');
  if (name === 'git')
    return /^(status|log|diff|show|grep|blame|ls-files|rev-parse|branch|commit|add|push|fetch|describe|cat-file|remote|tag)$/.test(
      words[1]?.text ?? '',
    );
  return READERS.has(name);
}

const GIT_GLOBAL = /^(-c|-p|--paginate|--exec-path|--git-dir|--work-tree|-C|--config-env)(=|$)/;

function gitHazards(rest: readonly string[]): string[] {
  const out: string[] = [];
  let i = 0;
  for (; i < rest.length && (rest[i] ?? '').startsWith('-'); i++) {
    const text = rest[i] ?? '';
    const m = GIT_GLOBAL.exec(text) ?? /^(-c|-C)/.exec(text);
    if (m?.[1] === undefined) continue;
    const value = text.length > m[0].length ? text.slice(m[0].length) : rest[i + 1];
    const safe = m[1] === '-C' && value !== undefined && !/^[/~-]|(^|\/)\.\.(\/|$)|\uffff/.test(value);
    if (!safe) out.push(m[1]);
    if (/^(-c|-C|--git-dir|--work-tree|--config-env)$/.test(text)) i++;
  }
  const sub = rest[i];
  for (const text of rest.slice(i + 1)) {
    if (text === '--') break;
    if (/^--ou/.test(text)) out.push('--output');
    if (sub === 'grep' && (/^-[a-zA-Z]*O/.test(text) || /^--open/.test(text))) out.push('-O');
    if (/^--(ext-diff|upload-pack|receive-pack|exec|open-files-in-pager|textconv)/.test(text))
      out.push(text.split('=')[0] ?? text);
    if ((sub === 'rebase' && /^(-x|--exec)/.test(text)) || (sub === 'clone' && /^(-c|-u|--config)/.test(text)))
      out.push(text);
  }
  return out;
}

/** The sed scripts among the words, and whether files are edited in place. */
function sedParts(words: readonly Resolved[]): {
  scripts: string[];
  files: Resolved[];
  inPlace: boolean;
  opaque: boolean;
} {
  const scripts: string[] = [];
  const files: Resolved[] = [];
  let inPlace = false;
  let opaque = false;
  const rest = words.slice(1);
  for (let i = 0; i < rest.length; i++) {
    const text = rest[i]?.text ?? '';
    if (text === '-e' || text === '--expression') scripts.push(rest[++i]?.text ?? '');
    else if (text.startsWith('--expression=')) scripts.push(text.slice(13));
    else if (/^(-\w*f$|--file)/.test(text)) {
      opaque = true;
      if (!text.includes('=')) i++;
    } else if (/^(-[a-zA-Z]*i|--in-place)/.test(text)) inPlace = true;
    else if (/^-[a-zA-Z]*e./.test(text)) scripts.push(text.slice(text.indexOf('e') + 1));
    else if (!text.startsWith('-')) files.push(rest[i] ?? literal(text));
  }
  if (scripts.length === 0 && !opaque) scripts.push(files.shift()?.text ?? '');
  return { scripts, files, inPlace, opaque };
}

const SED_WRITE = /(?:^|[;{}\n\d$/!\s]|[^\w\s]g?\d?[gpiIm]*)[wW]\s+([^\n;]+)/g;
const SED_EXEC = /(?:^|[;{}\n\d$/!])\s*e(?:\s|$)|[^\w\s][gpiIm\d]*e[gpiIm]*(?:$|[;}\n])/;

const RULES: readonly (readonly [RegExp, RegExp, string])[] = [
  [/^find$/, /^-(exec|execdir|ok|okdir|delete|fprint|fprint0|fprintf|fls)$/, ''],
  [/^rg$/, /^--pre(=|$)|^--hostname-bin/, '--pre'],
  [/^tar$/, /^--(to-command|checkpoint-action|use-compress-program|rsh-command)|^-\w*I|^-F/, ''],
  [/^(ssh|scp|sftp)$/, /ProxyCommand|LocalCommand|^-o|^-F/, ''],
  [/^man$/, /^-\w*P|^--pager/, '-P'],
  [/^(less|vim|vi|nvim|view|ex)$/, /^(-c|--cmd|-S|\+)/, ''],
  [/^sort$/, /^-\w*o|^--output|^--compress-program/, '-o'],
  [/^curl$/, /^-\w*[oOKT]|^--(output|config|upload-file|remote-name)/, ''],
  [/^wget$/, /^-O|^--(output-document|use-askpass|config)/, ''],
  [/^(rsync)$/, /^-e|^--rsh|^--rsync-path/, ''],
];

/** Options that run or write something; only a pattern that spells them covers them. */
export function hazardOptions(words: readonly Resolved[]): string[] {
  const name = baseName(words[0]?.text ?? '');
  const rest = words.slice(1).map((x) => x.text);
  if (name === 'git') return gitHazards(rest);
  if (name === 'sed') {
    const parts = sedParts(words);
    const out = parts.inPlace ? ['-i'] : [];
    if (parts.opaque) out.push('-f');
    for (const s of parts.scripts) if (SED_EXEC.test(s) || s.match(SED_WRITE) !== null) out.push(s);
    return out;
  }
  if (/^(g|m|n)?awk$/.test(name)) return rest.filter((x) => /system\s*\(|[>|]|^-f|^-i|@load|getline/.test(x));
  const out: string[] = [];
  for (const [program, option, spelled] of RULES)
    if (program.test(name))
      for (const x of rest) if (option.test(x)) out.push(spelled === '' ? (x.split('=')[0] ?? x) : spelled);
  return out;
}

const unknownTarget = literal(UNKNOWN);
const joinPath = (dir: Resolved, leaf: Resolved): Resolved =>
  literal(`${dir.text}/${baseName(leaf.text.replace(/\/+$/, ''))}`);

function outputOptions(words: readonly Resolved[]): Resolved[] {
  const out: Resolved[] = [];
  const name = baseName(words[0]?.text ?? '');
  const short = /^(sort|curl|gcc|cc|clang|g\+\+|ld|go|openssl|pandoc|wget)$/.test(name);
  words.forEach((x, i) => {
    const long = /^--?(output|out|keyout|outfile|output-document|output-file)(=(.*))?$/s.exec(x.text);
    if (long !== null) out.push(long[2] === undefined ? (words[i + 1] ?? unknownTarget) : literal(long[3] ?? ''));
    else if (short && (x.text === '-o' || x.text === '-O')) out.push(words[i + 1] ?? unknownTarget);
    else if (short && /^-o./.test(x.text) && !/^-out/.test(x.text)) out.push(literal(x.text.slice(2)));
  });
  return out;
}

function awkTargets(words: readonly Resolved[]): Resolved[] {
  const out: Resolved[] = [];
  for (const x of words.slice(1)) {
    for (const m of x.text.matchAll(/>>?\s*("([^"]*)"|[$\w(])/g))
      if (/print/.test(x.text)) out.push(m[2] === undefined ? unknownTarget : literal(m[2]));
  }
  return out;
}

function copyTargets(name: string, words: readonly Resolved[]): Resolved[] {
  const operands = words.slice(1).filter((x) => !x.text.startsWith('-'));
  const flag = words.findIndex((x) => x.text === '-t' || x.text === '--target-directory');
  const inline = words.find((x) => x.text.startsWith('--target-directory='));
  const last = inline
    ? literal(inline.text.slice(19))
    : flag !== -1 && name !== 'rsync'
      ? words[flag + 1]
      : operands.at(-1);
  if (last === undefined) return [];
  return [last, ...operands.filter((x) => x !== last).map((x) => joinPath(last, x))];
}

/** What a command writes through its arguments. Unresolved words stand for unknown targets. */
export function writeTargets(simple: Simple): Resolved[] {
  const words = simple.words;
  const name = baseName(words[0]?.text ?? '');
  let end = false;
  const operands = words.slice(1).filter((x) => {
    const option = !end && x.text.startsWith('-') && x.text !== '-';
    if (x.text === '--') end = true;
    return !option;
  });
  const outputs = outputOptions(words);
  switch (name) {
    case 'tee':
    case 'touch':
    case 'truncate':
    case 'rm':
    case 'rmdir':
    case 'unlink':
    case 'shred':
    case 'mkdir':
      return [...operands, ...outputs];
    case 'chmod':
    case 'chown':
      return operands.slice(1);
    case 'mv':
      return [...operands, ...copyTargets(name, words)];
    case 'cp':
    case 'ln':
    case 'install':
    case 'rsync':
    case 'scp':
      return copyTargets(name, words);
    case 'dd':
      return words.filter((x) => x.text.startsWith('of=')).map((x) => literal(x.text.slice(3)));
    case 'sed': {
      const parts = sedParts(words);
      const written = parts.scripts.flatMap((s) => [...s.matchAll(SED_WRITE)].map((m) => literal((m[1] ?? '').trim())));
      return [...(parts.inPlace ? parts.files : []), ...written, ...(parts.opaque ? [unknownTarget] : [])];
    }
    case 'awk':
    case 'gawk':
    case 'mawk':
      return awkTargets(words);
    case 'tar':
      return words.slice(1, 3).some((x) => /^-?\w*[xcru]/.test(x.text) || /^--(extract|create|get)/.test(x.text))
        ? [unknownTarget]
        : [];
    case 'unzip':
    case 'patch':
      return [unknownTarget];
    case 'find':
      return words.flatMap((x, i) =>
        /^-(fprint0?|fprintf|fls)$/.test(x.text)
          ? [words[i + 1] ?? unknownTarget]
          : x.text === '-delete'
            ? [unknownTarget]
            : [],
      );
    case 'git':
      if (/^(apply|checkout|restore|reset|stash|am|merge|pull|rebase|clean|rm|mv)$/.test(operands[0]?.text ?? ''))
        return [...(/^(rm|mv)$/.test(operands[0]?.text ?? '') ? operands.slice(1) : [unknownTarget]), ...outputs];
      return outputs;
    default:
      return outputs;
  }
}

const TEXT_OPTIONS = /^(-m|--message|--title|--body|-e|-g|--glob|--include|--exclude|-name|-iname|-path)$/;

/** The literal arguments that would be read if they are paths. */
export function readCandidates(simple: Simple): Resolved[] {
  const words = simple.words;
  const name = baseName(words[0]?.text ?? '');
  if (name === 'echo' || name === 'printf') return [];
  const out: Resolved[] = [];
  let pattern = /^(grep|egrep|fgrep|rg)$/.test(name) && !words.some((x) => /^-\w*[ef]$/.test(x.text));
  for (let i = 1; i < words.length; i++) {
    const word = words[i];
    if (word === undefined) continue;
    if (TEXT_OPTIONS.test(word.text)) {
      i++;
      continue;
    }
    if (pattern && !word.text.startsWith('-')) {
      pattern = false;
      continue;
    }
    if (word.data) continue;
    out.push(word);
    const value = /^(?:--?[\w-]+=|@|[\w-]+=@?|-[a-zA-Z](?=[/~.]))(.+)$/s.exec(word.text);
    if (value?.[1] !== undefined) out.push({ ...word, text: value[1].replace(/^@/, '') });
  }
  return out;
}

/** Assignments an allow rule survives. */
export const isHarmlessName = (name: string): boolean =>
  /^(DEBUG|CI|NODE_ENV|LANG|LC_\w+|TZ|TERM|NO_COLOR|FORCE_COLOR|COLUMNS|VERBOSE|LOG_LEVEL|RUST_LOG|RUST_BACKTRACE|PORT)$/.test(
    name,
  );
