import { scanSedScript } from './sed-script.ts';
import type { Resolved } from './words.ts';
import { baseName } from './wrappers.ts';

const GIT_GLOBAL = /^(-c|-p|--paginate|--exec-path|--git-dir|--work-tree|-C|--config-env)(=|$)/;

/** Configuration that git or a program it starts will run or read code from. */
const GIT_RUNS =
  /^(alias|pager|filter|diff|merge|difftool|mergetool|credential|gpg|sequence|include|includeif|url|protocol|uploadpack|remote|submodule|browser|man|guitool|trailer)\.|^core\.(pager|editor|sshcommand|hookspath|fsmonitor|askpass|gitproxy|worktree|attributesfile|alternaterefscommand)$|^(http|sendemail)\./i;

const GIT_ANY = ['--output', '--ext-diff', '--textconv', '--upload-pack', '--receive-pack', '--exec'];

/** Words after a git sub-command that run or write something. */
const GIT_SUB: Readonly<Record<string, RegExp>> = {
  grep: /^(-[a-zA-Z]*O|--open)/,
  rebase: /^(-x|--exec)/,
  bisect: /^(run|visualize|view)$/,
  submodule: /^foreach$/,
  difftool: /^(-x|--ext|-t|--tool)/,
  mergetool: /^(-t|--tool)/,
  'filter-branch': /^--[a-z]+-filter|^--setup/,
  clone: /^(-c|-u|--config|--template)|^ext::/,
  init: /^--template/,
  fetch: /^ext::/,
  pull: /^ext::/,
  push: /^ext::/,
  'ls-remote': /^ext::/,
  'send-email': /^--(sendmail-cmd|smtp-server|to-cmd|cc-cmd)/,
  'format-patch': /^(-o|--output)/,
  archive: /^(-o|--output)/,
  bundle: /^create$/,
  apply: /^--unsafe-paths|^--directory=(\/|~|.*\.\.)/,
  am: /^--directory=(\/|~|.*\.\.)/,
  config: GIT_RUNS,
};

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
  const sub = rest[i] ?? '';
  const own = Object.hasOwn(GIT_SUB, sub) ? GIT_SUB[sub] : undefined;
  for (const text of rest.slice(i + 1)) {
    if (text === '--') break;
    if (own?.test(text) || abbreviates(text, GIT_ANY) !== undefined) out.push(text.split('=')[0] ?? text);
  }
  return out;
}

/** The long option that a word spells or abbreviates. */
function abbreviates(text: string, long: readonly string[]): string | undefined {
  const name = text.split('=')[0] ?? text;
  return name.length < 4 || !name.startsWith('--') ? undefined : long.find((option) => option.startsWith(name));
}

interface SedWords {
  readonly script: string;
  readonly files: readonly Resolved[];
  /** The options that edit in place, as typed. */
  readonly inPlace: readonly string[];
  /** The script comes from a file. */
  readonly opaque: boolean;
}

/** Splits the words of a sed command. */
export function sedWords(words: readonly Resolved[]): SedWords {
  const scripts: string[] = [];
  const files: Resolved[] = [];
  const inPlace: string[] = [];
  let opaque = false;
  const rest = words.slice(1);
  for (let i = 0; i < rest.length; i++) {
    const word = rest[i];
    if (word === undefined) continue;
    const { text } = word;
    if (text === '-e' || text === '--expression') scripts.push(rest[++i]?.text ?? '');
    else if (/^--exp[a-z]*=/.test(text)) scripts.push(text.slice(text.indexOf('=') + 1));
    else if (/^(-\w*f$|--fi)/.test(text)) {
      opaque = true;
      if (!text.includes('=')) i++;
    } else if (/^(-[a-zA-Z]*i|--i)/.test(text))
      inPlace.push(text.startsWith('--') ? (text.split('=')[0] ?? text) : '-i');
    else if (/^-[a-zA-Z]*e./.test(text)) scripts.push(text.slice(text.indexOf('e') + 1));
    else if (/^-[a-zA-Z]*e$/.test(text)) scripts.push(rest[++i]?.text ?? '');
    else if (!text.startsWith('-')) files.push(word);
  }
  if (scripts.length === 0 && !opaque) scripts.push(files.shift()?.text ?? '');
  return { script: scripts.join('\n'), files, inPlace, opaque };
}

function sedHazards(words: readonly Resolved[]): string[] {
  const parts = sedWords(words);
  const effects = scanSedScript(parts.script);
  return [
    ...parts.inPlace,
    ...(parts.opaque ? ['-f'] : []),
    ...(effects.executes || effects.writes.length > 0 ? [parts.script] : []),
  ];
}

const AWK_OPTION = ['--file', '--include', '--load', '--exec', '--inplace'];
const AWK_RUNS = /system\s*\(|getline|@(load|include|\w+\s*\()|print[\s\S]*[>|]/;

const awkHazards = (rest: readonly string[]): string[] =>
  rest.filter((x) => AWK_RUNS.test(x) || /^-[fiEl]/.test(x) || abbreviates(x, AWK_OPTION) !== undefined);

interface OptionHazard {
  readonly programs: string;
  readonly option?: RegExp;
  readonly long?: readonly string[];
}

const OPTIONS: readonly OptionHazard[] = [
  { programs: 'find', option: /^-(exec|execdir|ok|okdir|delete|fprint|fprint0|fprintf|fls)$/ },
  { programs: 'fd fdfind', option: /^-[a-zA-Z]*[xX]/, long: ['--exec', '--exec-batch'] },
  { programs: 'rg', option: /^--pre(=|$)|^--hostname-bin/ },
  {
    programs: 'tar',
    option: /^-[a-zA-Z]*[IF]/,
    long: [
      '--to-command',
      '--checkpoint-action',
      '--use-compress-program',
      '--rsh-command',
      '--rmt-command',
      '--info-script',
      '--new-volume-script',
    ],
  },
  { programs: 'ssh scp sftp', option: /ProxyCommand|LocalCommand|^-o|^-F|^-S/ },
  { programs: 'man', option: /^-[a-zA-Z]*[PHC]/, long: ['--pager', '--html', '--config-file'] },
  { programs: 'less vim vi nvim view ex', option: /^(-c|--cmd|-S|-[a-zA-Z]*[kKoO]|--log|--lesskey|\+)/ },
  { programs: 'sort', option: /^-[a-zA-Z]*o/, long: ['--output', '--compress-program'] },
  {
    programs: 'curl',
    option: /^-[a-zA-Z]*[oOKTDcJ]/,
    long: [
      '--output',
      '--output-dir',
      '--config',
      '--upload-file',
      '--remote-name',
      '--remote-name-all',
      '--remote-header-name',
      '--dump-header',
      '--cookie-jar',
      '--trace',
      '--trace-ascii',
      '--stderr',
      '--libcurl',
      '--hsts',
      '--alt-svc',
      '--etag-save',
      '--engine',
    ],
  },
  {
    programs: 'wget',
    option: /^-[a-zA-Z]*[OoaPie]/,
    long: [
      '--output-document',
      '--output-file',
      '--append-output',
      '--directory-prefix',
      '--use-askpass',
      '--config',
      '--execute',
      '--input-file',
      '--post-file',
      '--body-file',
      '--save-cookies',
      '--warc-file',
    ],
  },
  { programs: 'rsync', option: /^-[a-zA-Z]*e/, long: ['--rsh', '--rsync-path', '--log-file', '--write-batch'] },
  { programs: 'zip', option: /^-TT/, long: ['--unzip-command'] },
  { programs: 'nmap', option: /^-o[A-Z]/, long: ['--script'] },
  { programs: 'tcpdump', option: /^-[a-zA-Z]*[zw]/ },
  { programs: 'gdb', option: /^--?(ex|eval-command|x|command|init)/ },
  { programs: 'split', long: ['--filter'] },
  { programs: 'xz gzip zstd uniq shuf', option: /^-o/, long: ['--output'] },
];

const BY_PROGRAM: ReadonlyMap<string, OptionHazard> = new Map(
  OPTIONS.flatMap((o) => o.programs.split(' ').map((name): [string, OptionHazard] => [name, o])),
);

/**
 * Words of a command that run or write something beside what its program does. Only an allow pattern that spells a word
 * covers it, once for each time it stands there.
 */
export function hazardOptions(words: readonly Resolved[]): string[] {
  const name = baseName(words[0]?.text ?? '');
  const rest = words.slice(1).map((x) => x.text);
  if (name === 'git') return gitHazards(rest);
  if (/^g?sed$/.test(name)) return sedHazards(words);
  if (/^(g|m|n)?awk$/.test(name)) return awkHazards(rest);
  if (name === 'tee') return rest.filter((x) => !x.startsWith('-'));
  const hazard = BY_PROGRAM.get(name);
  if (hazard === undefined) return [];
  const { option, long } = hazard;
  return rest.flatMap((x) =>
    option?.test(x) || (long !== undefined && abbreviates(x, long) !== undefined) ? [x.split('=')[0] ?? x] : [],
  );
}
