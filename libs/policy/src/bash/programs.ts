import { sedWords } from './hazards.ts';
import { scanSedScript } from './sed-script.ts';
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

const RUNS_A_BINARY: Readonly<Record<string, RegExp>> = {
  npm: /^(exec|x|explore)$/,
  pnpm: /^(exec|dlx)$/,
  yarn: /^(?!(add|remove|install|run|test|build|why|up|upgrade|init|info|config|cache|pack|publish|version)$)/,
};

/** Whether a program takes its arguments as data and starts none of them. */
export function takesData(words: readonly Resolved[]): boolean {
  const name = baseName(words[0]?.text ?? '');
  const runs = Object.hasOwn(RUNS_A_BINARY, name) ? RUNS_A_BINARY[name] : undefined;
  const first = words.slice(1).find((x) => !x.text.startsWith('-'));
  return DATA.has(name) && !(first !== undefined && runs?.test(first.text) === true);
}

/** The sub-command behind git's own options; empty when an option may run something. */
function gitSubcommand(words: readonly Resolved[]): string {
  for (let i = 1; i < words.length; i++) {
    const text = words[i]?.text ?? '';
    if (/^-c|^--(exec-path|config-env)/.test(text)) return '';
    if (/^(-C|--git-dir|--work-tree|--namespace)$/.test(text)) i++;
    else if (!text.startsWith('-')) return text;
  }
  return '';
}

/** Whether a command only reads. */
export function onlyReads(words: readonly Resolved[]): boolean {
  const program = words[0]?.text ?? '';
  if (program.includes('/') && !/^(\/usr)?(\/local)?\/bin\/[^/]+$/.test(program)) return false;
  const name = baseName(program);
  if (name === 'git')
    return /^(status|log|diff|show|grep|blame|ls-files|rev-parse|branch|commit|add|push|fetch|describe|cat-file|remote|tag)$/.test(
      gitSubcommand(words),
    );
  return READERS.has(name);
}

const unknownTarget = literal(UNKNOWN);
const joinPath = (dir: Resolved, leaf: Resolved): Resolved =>
  literal(`${dir.text}/${baseName(leaf.text.replace(/\/+$/, ''))}`);

function outputOptions(words: readonly Resolved[]): Resolved[] {
  const out: Resolved[] = [];
  const name = baseName(words[0]?.text ?? '');
  const short =
    /^(sort|tree|less|iconv|gpg|curl|gcc|cc|clang|g\+\+|ld|go|openssl|pandoc|wget|patch|xz|zstd|shuf)$/.test(name);
  words.forEach((x, i) => {
    const long =
      /^--?(output-dir|output|out|keyout|outfile|output-document|output-file|log-file|LOG-FILE)(=(.*))?$/s.exec(x.text);
    if (long !== null) out.push(long[2] === undefined ? (words[i + 1] ?? unknownTarget) : literal(long[3] ?? ''));
    else if (short && (x.text === '-o' || x.text === '-O')) out.push(words[i + 1] ?? unknownTarget);
    else if (short && /^-[oO]./.test(x.text) && !/^-out/.test(x.text)) out.push(literal(x.text.slice(2)));
  });
  return out;
}

function awkTargets(words: readonly Resolved[]): Resolved[] {
  const out: Resolved[] = [];
  for (const x of words.slice(1)) {
    const from = x.text.indexOf('print');
    if (from === -1) continue;
    for (const m of x.text.slice(from).matchAll(/>>?\s*("([^"]*)"|[$\w(])/g))
      out.push(m[2] === undefined ? unknownTarget : literal(m[2]));
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

const into = (words: readonly Resolved[], option: string): Resolved[] => {
  const at = words.findIndex((x) => x.text === option);
  const folder = at === -1 ? undefined : words[at + 1];
  return folder === undefined ? [unknownTarget] : [folder, literal(`${folder.text}/${UNKNOWN}`)];
};

function tarTargets(words: readonly Resolved[]): Resolved[] {
  const clusters = words.slice(1).flatMap((x, i) => (/^-[a-zA-Z]+$/.test(x.text) || i === 0 ? [x.text] : []));
  const mode = (letters: RegExp, ...long: string[]): boolean =>
    clusters.some((x) => letters.test(x)) || words.some((x) => long.some((l) => x.text.startsWith(l)));
  const creates = mode(/^-?[a-zA-Z]*[cruA]/, '--create', '--append', '--update', '--concat');
  const lists = mode(/^-?[a-zA-Z]*t/, '--list') && !creates;
  const extracts = mode(/^-?[a-zA-Z]*x/, '--ex', '--get');
  if (lists && !extracts) return [];
  const file = words.findIndex((x, i) => i > 0 && /^(-?[a-zA-Z]*f|--file)$/.test(x.text));
  const inline = words.find((x) => x.text.startsWith('--file='));
  const archive = inline ? literal(inline.text.slice(7)) : file === -1 ? undefined : words[file + 1];
  const folders = words.flatMap((x) => (/^(-C|--directory)/.test(x.text) ? [x.text] : []));
  const place = folders.length === 1 ? into(words, folders[0] ?? '') : [unknownTarget];
  return [...(creates ? [archive ?? unknownTarget] : []), ...(extracts || !creates ? place : [])];
}

/** Where a find starts: what stands before its tests, behind the options of its own. */
export function findStarts(words: readonly Resolved[]): Resolved[] {
  const out: Resolved[] = [];
  for (let i = 1; i < words.length; i++) {
    const word = words[i];
    if (word === undefined) continue;
    if (word.text === '-D') i++;
    else if (/^-([HLP]|O\d*)$/.test(word.text)) continue;
    else if (/^[-(!]/.test(word.text)) break;
    else out.push(word);
  }
  return out.length === 0 ? [literal('.')] : out;
}

/** Deleting below a starting point may reach any file in it, but only what its tests select. */
function findTargets(words: readonly Resolved[]): Resolved[] {
  const out = words.flatMap((x, i) =>
    /^-(fprint0?|fprintf|fls)$/.test(x.text) ? [words[i + 1] ?? unknownTarget] : [],
  );
  if (!words.some((x) => x.text === '-delete')) return out;
  for (const start of findStarts(words)) out.push(start, literal(`${start.text.replace(/\/+$/, '')}/${UNKNOWN}`));
  return out;
}

function gitTargets(operands: readonly Resolved[]): Resolved[] {
  const sub = operands[0]?.text ?? '';
  if (sub === 'rm' || sub === 'mv') return operands.slice(1);
  return sub === 'checkout' || sub === 'restore' ? [...operands.slice(1), unknownTarget] : [unknownTarget];
}

/** What an archiver or a packer writes; undefined for other programs. */
function archiveTargets(
  name: string,
  words: readonly Resolved[],
  operands: readonly Resolved[],
): Resolved[] | undefined {
  switch (name) {
    case 'tar':
    case 'gtar':
    case 'bsdtar':
      return tarTargets(words);
    case '7z':
    case '7za':
    case 'unrar':
    case 'ar':
    case 'jar':
      return /^-?[a-zA-Z]*[xe]/.test(words[1]?.text ?? '') ? [unknownTarget] : [...operands];
    case 'cpio':
      return words.some((x) => /^-[a-zA-Z]*[ip]|^--(extract|pass-through)/.test(x.text)) ? [unknownTarget] : [];
    case 'unzip':
      return into(words, '-d');
    case 'gzip':
    case 'gunzip':
    case 'bzip2':
    case 'xz':
    case 'zstd':
      return operands.flatMap((x) => [x, literal(`${x.text}${UNKNOWN}`)]);
    case 'zip':
      return operands.slice(0, 1);
    default:
      return undefined;
  }
}

const WRITES_OPERANDS = new Set('tee touch truncate rm rmdir mkfifo mktemp sponge unlink shred mkdir'.split(' '));

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
  if (WRITES_OPERANDS.has(name)) return [...operands, ...outputs];
  const packed = archiveTargets(name, words, operands);
  if (packed !== undefined) return [...packed, ...outputs];
  switch (name) {
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
      const parts = sedWords(words);
      const effects = scanSedScript(parts.script);
      return [
        ...(parts.inPlace.length > 0 ? parts.files : []),
        ...effects.writes.map(literal),
        ...(parts.opaque || effects.executes ? [unknownTarget] : []),
      ];
    }
    case 'awk':
    case 'gawk':
    case 'mawk': {
      const inPlace = words.some((x, i) => /^(-i|--include)$/.test(x.text) && words[i + 1]?.text === 'inplace');
      return [
        ...awkTargets(words),
        ...(inPlace || words.some((x) => /^(-i|--include=)inplace$/.test(x.text)) ? operands : []),
      ];
    }
    case 'uniq':
      return operands.slice(1);
    case 'patch':
      return [...operands.slice(0, 1), ...outputs, unknownTarget];
    case 'split':
    case 'csplit':
      return [literal(`${operands[1]?.text ?? 'x'}${UNKNOWN}`)];
    case 'perl':
      return words.some((x) => /^-[a-zA-Z0-9]*i/.test(x.text)) ? operands : outputs;
    case 'find':
      return findTargets(words);
    case 'git':
      if (
        /^(apply|checkout|switch|restore|reset|stash|am|merge|pull|rebase|cherry-pick|revert|clean|rm|mv)$/.test(
          operands[0]?.text ?? '',
        )
      )
        return [...gitTargets(operands), ...outputs];
      return outputs;
    default:
      return outputs;
  }
}

const TEXT_OPTIONS =
  /^(-m|--message|--title|--body|-e|--regexp|--expression|-g|--glob|--include|--exclude|-name|-iname|-path)$/;

/** Text options with their value in the same word. */
const ATTACHED: Readonly<Record<string, RegExp>> = {
  git: /^-[a-zA-Z]*m./,
  grep: /^-[a-zA-Z]*e./,
  rg: /^-[a-zA-Z]*[eg]./,
};

/** Words in which a path stands beside something else: a revision, a mount, an address. */
const COMPOSED: ReadonlyMap<string, RegExp> = new Map([
  ['git', /^[^:/\s]*:(?!\/\/)([^:]+)$/],
  ['docker', /^(?:.*,)?(?:src=|source=)?([^:,]+)[:,]/],
  ['podman', /^(?:.*,)?(?:src=|source=)?([^:,]+)[:,]/],
]);

interface Reading {
  readonly attached: RegExp | undefined;
  /** Words before the first operand that is a search pattern or a script; undefined when none is. */
  readonly patternAt: number | undefined;
}

function readingOf(name: string, words: readonly Resolved[]): Reading {
  const family = /^(egrep|fgrep)$/.test(name) ? 'grep' : name;
  const attached = Object.hasOwn(ATTACHED, family) ? ATTACHED[family] : undefined;
  const searches =
    /^(grep|rg|sed|gsed|awk|gawk|mawk|nawk)$/.test(family) || (name === 'git' && words[1]?.text === 'grep');
  const given = words.some(
    (x) => /^-\w*[ef]$|^--(regexp|file|expression)(=|$)/.test(x.text) || attached?.test(x.text) === true,
  );
  return { attached, patternAt: searches && !given ? (name === 'git' ? 2 : 1) : undefined };
}

/** The literal arguments that would be read if they are paths. */
export function readCandidates(simple: Simple): Resolved[] {
  const words = simple.words;
  const name = baseName(words[0]?.text ?? '');
  if (name === 'echo' || name === 'printf') return [];
  const out: Resolved[] = [];
  const { attached, patternAt } = readingOf(name, words);
  let pattern = patternAt !== undefined;
  for (let i = 1; i < words.length; i++) {
    const word = words[i];
    if (word === undefined) continue;
    const option = word.text.split('=')[0] ?? '';
    if (TEXT_OPTIONS.test(option) || (name === 'git' && /^-[a-zA-Z]*m$/.test(option))) {
      if (!word.text.includes('=')) i++;
      continue;
    }
    if (attached?.test(word.text) === true) continue;
    if (pattern && i >= (patternAt ?? 0) && !word.text.startsWith('-')) {
      pattern = false;
      continue;
    }
    if (word.data) continue;
    out.push(word);
    const value = /^(?:--?[\w-]+=|@|[\w-]+=@?|-[a-zA-Z](?=[/~.@]))(.+)$/s.exec(word.text);
    if (value?.[1] !== undefined) out.push({ ...word, text: value[1].replace(/^@/, '') });
    const inside = COMPOSED.get(name)?.exec(value?.[1] ?? word.text)?.[1];
    if (inside !== undefined) out.push({ ...word, text: inside });
  }
  if (/^[gmn]?awk$/.test(name))
    for (const word of words)
      for (const m of word.text.matchAll(/getline[^;}|]*<\s*"([^"]*)"/g)) out.push(literal(m[1] ?? ''));
  if (/^g?sed$/.test(name)) out.push(...scanSedScript(sedWords(words).script).reads.map(literal));
  return out;
}
