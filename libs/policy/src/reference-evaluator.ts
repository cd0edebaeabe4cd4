/** A naive model of the engine for tests: commands are trees, so that nothing is parsed, and patterns are searched. */
export interface ReferenceRule {
  readonly effect: 'allow' | 'ask' | 'deny';
  readonly tool: string;
  readonly pattern: string;
}

export type Tree =
  | { readonly kind: 'simple'; readonly words: readonly string[]; readonly to?: string }
  | { readonly kind: 'seq'; readonly op: '&&' | '||' | ';' | '|' | '&'; readonly parts: readonly Tree[] }
  | { readonly kind: 'subshell' | 'group' | 'if' | 'loop' | 'shell'; readonly body: Tree }
  | { readonly kind: 'wrapped'; readonly by: string; readonly transparent: boolean; readonly body: Tree };

export interface ReferenceContext {
  readonly mode: 'strict' | 'dev' | 'yolo';
  readonly sandboxed: boolean;
  readonly fullAccess: boolean;
  readonly rules: readonly ReferenceRule[];
}

const PROJECT = '/home/dev/app';
type Effect = 'allow' | 'ask' | 'deny';
type Part = { readonly effect: Effect; readonly liftable: boolean };

/** A pattern matched by trying every split; exponential, for short texts only. */
export function fits(pattern: string, text: string): boolean {
  if (pattern === '') return text === '';
  if (pattern[0] === '*') {
    for (let i = 0; i <= text.length; i++) if (fits(pattern.slice(1), text.slice(i))) return true;
    return false;
  }
  return text !== '' && pattern[0] === text[0] && fits(pattern.slice(1), text.slice(1));
}

/** Programs of the generated calls that are not known to only read. */
const mayWrite = (words: readonly string[]): boolean => ['npm', 'flock', './git'].includes(words[0] ?? '');

const base = (program: string): string => program.split('/').at(-1) ?? '';

/** The texts in which deny and ask see a command: as typed, by base name, and with leading options dropped. */
function spellings(words: readonly string[]): string[] {
  const [program = '', ...rest] = words;
  const tails: string[][] = [[...rest]];
  for (const tail of tails)
    if (tail[0]?.startsWith('-')) tails.push(tail.slice(1), ...(tail.length > 1 ? [tail.slice(2)] : []));
  return [words.join(' '), ...tails.map((tail) => [base(program), ...tail].join(' '))];
}

function tightMatches(rule: ReferenceRule, words: readonly string[]): boolean {
  return spellings(words).some(
    (text) =>
      fits(rule.pattern, text) ||
      (rule.pattern.endsWith(' *') && fits(rule.pattern.slice(0, -2), text)) ||
      (!rule.pattern.includes('*') && text.startsWith(`${rule.pattern} `)),
  );
}

function allowMatches(rule: ReferenceRule, words: readonly string[]): boolean {
  const text = words.join(' ');
  if (words[0]?.includes('/') && !rule.pattern.startsWith(words[0])) return false;
  return fits(rule.pattern, text) || (rule.pattern.endsWith(' *') && fits(rule.pattern.slice(0, -2), text));
}

/** `name` or `folder/**` in the project against a path relative to it. */
function pathMatches(pattern: string, target: string): boolean {
  const path = `${PROJECT}/${target}`;
  if (!pattern.includes('/')) return fits(pattern, base(path));
  const folder = `${PROJECT}/${pattern.slice(0, -'/**'.length)}`;
  return path === folder || path.startsWith(`${folder}/`);
}

function writes(to: string, c: ReferenceContext, judgeOnly: boolean): Part[] {
  const of = c.rules.filter((r) => r.tool === 'write' && pathMatches(r.pattern, to));
  const out: Part[] = [];
  for (const r of of) if (r.effect !== 'allow') out.push({ effect: r.effect, liftable: false });
  const table = c.mode === 'yolo' || (c.mode === 'dev' && c.sandboxed);
  if (out.length === 0 && !judgeOnly && !table && !of.some((r) => r.effect === 'allow'))
    out.push({ effect: 'ask', liftable: true });
  return out;
}

function simple(words: readonly string[], to: string | undefined, c: ReferenceContext, judgeOnly: boolean): Part[] {
  const out: Part[] = to === undefined ? [] : writes(to, c, judgeOnly);
  const rules = c.rules.filter((r) => r.tool === 'bash');
  const tight = rules.filter((r) => r.effect !== 'allow' && tightMatches(r, words));
  for (const r of tight) out.push({ effect: r.effect, liftable: false });
  const covered = rules.some((r) => r.effect === 'allow' && allowMatches(r, words));
  const recursive = words[0] === 'rm' && words.some((w) => w === '-rf');
  if (recursive && !rules.some((r) => r.effect === 'allow' && r.pattern.startsWith('rm ') && allowMatches(r, words)))
    out.push({ effect: 'ask', liftable: true });
  const guarded = c.rules.some((r) => r.tool === 'write' && r.effect !== 'allow');
  if (guarded && !c.sandboxed && mayWrite(words)) out.push({ effect: 'ask', liftable: true });
  const table = c.mode === 'yolo' || (c.mode === 'dev' && c.sandboxed);
  if (!judgeOnly && !table && !covered && tight.length === 0) out.push({ effect: 'ask', liftable: true });
  return out;
}

function parts(tree: Tree, c: ReferenceContext, judgeOnly: boolean): Part[] {
  switch (tree.kind) {
    case 'simple':
      return simple(tree.words, tree.to, c, judgeOnly);
    case 'seq':
      return tree.parts.flatMap((p) => parts(p, c, judgeOnly));
    case 'shell':
      return [...simple(['sh', '-c', render(tree.body)], undefined, c, true), ...parts(tree.body, c, judgeOnly)];
    case 'wrapped': {
      const line = [...tree.by.split(' '), ...(tree.body.kind === 'simple' ? tree.body.words : [])];
      const own = simple(line, undefined, c, tree.transparent || judgeOnly);
      return [...own, ...parts(tree.body, c, judgeOnly || !tree.transparent)];
    }
    default:
      return parts(tree.body, c, judgeOnly);
  }
}

/** The answer of the model. */
export function referenceEffect(tree: Tree, c: ReferenceContext): Effect {
  const found = parts(tree, c, false);
  if (found.some((p) => p.effect === 'deny')) return 'deny';
  const lifts = c.mode === 'yolo' || c.fullAccess;
  return found.some((p) => !(lifts && p.liftable)) ? 'ask' : 'allow';
}

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** The text of a tree as a person would type it. */
export function render(tree: Tree): string {
  switch (tree.kind) {
    case 'simple':
      return tree.words.join(' ') + (tree.to === undefined ? '' : ` > ${tree.to}`);
    case 'seq':
      return tree.parts.map(render).join(` ${tree.op} `);
    case 'subshell':
      return `( ${render(tree.body)} )`;
    case 'group':
      return `{ ${render(tree.body)}\n}`;
    case 'if':
      return `if ${render(tree.body)}\nthen ${render(tree.body)}\nfi`;
    case 'loop':
      return `while ${render(tree.body)}\ndo ${render(tree.body)}\ndone`;
    case 'shell':
      return `sh -c ${quote(render(tree.body))}`;
    case 'wrapped':
      return `${tree.by} ${render(tree.body)}`;
  }
}
