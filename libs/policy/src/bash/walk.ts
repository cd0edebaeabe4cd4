import { forEachChild, type ParsedScript, parse, type Redirection, type SyntaxNode, type Word } from 'unbash';
import { assignedScripts, borneScripts } from './borne.ts';
import { expandBraces } from './braces.ts';
import { cloneScope, leaves, mergeScope, movedTo, taint, updateState } from './state.ts';
import { outputOf, type Piped } from './stream.ts';
import { unclosed } from './unclosed.ts';
import { literal, type Resolved, resolveWord, type Scope, tilde, UNKNOWN } from './words.ts';
import { baseName, type Script, unwrap } from './wrappers.ts';

/** `full`: every list judges it. `strict`: only deny and ask rules and guards do. */
export type Role = 'full' | 'strict';

export interface Redirected {
  readonly op: string;
  readonly target: Resolved;
}

/** One simple command as judged. */
export interface Simple {
  readonly words: readonly Resolved[];
  readonly assigns: readonly { readonly name: string; readonly value: string }[];
  readonly redirects: readonly Redirected[];
  readonly cwd: string | undefined;
  readonly role: Role;
  readonly input: string | undefined;
  readonly piped: Piped | undefined;
  /** A transparent wrapper's own line: what it starts is judged instead. */
  readonly wraps?: boolean;
  /** Where the command stands in the outermost text; for a command of an inner script, the one that starts it. */
  readonly at?: Span;
}

/** Start and end of a stretch of the outermost text, in UTF-16 units. */
export type Span = readonly [start: number, end: number];

export interface Walk {
  readonly simples: Simple[];
  readonly problems: string[];
  depth: number;
  /** How many calls of functions were looked into. */
  calls?: number;
  /** Somewhere in the text the folder changes, so that what runs later runs nobody knows where. */
  moves?: boolean;
  /** The command of the outermost text that is being looked at. */
  at?: Span;
  /** How many scripts given as arguments or input are around the present one. */
  inner?: number;
}

const MAX_COMMANDS = 256;
const MAX_DEPTH = 16;
/** INVARIANT: past the limits an allow becomes an ask, but denies are still looked for up to these bounds. */
const HARD_DEPTH = 40;
const HARD_LENGTH = 262144;

function report(walk: Walk, problem: string): void {
  if (!walk.problems.includes(problem)) walk.problems.push(problem);
}

/** Parses a script text and judges every command in it. */
export function walkText(text: string, scope: Scope, walk: Walk, role: Role, piped?: Piped): void {
  if (text.length > 65536) report(walk, 'the command is over 64 KiB');
  if (text.length > HARD_LENGTH) return;
  if (/\b(?:cd|pushd|popd)\b/.test(text)) walk.moves = true;
  const script = parse(text);
  const open = unclosed(script, text);
  if (open !== undefined) report(walk, `cannot parse: ${open}`);
  walkScript(script, scope, walk, role, piped);
}

function walkScript(script: ParsedScript, scope: Scope, walk: Walk, role: Role, piped?: Piped): void {
  if (walk.depth >= MAX_DEPTH) report(walk, 'nesting is over 16 levels');
  if (walk.depth >= HARD_DEPTH) return;
  if ((script.errors?.length ?? 0) > 0) report(walk, `cannot parse: ${script.errors?.[0]?.message ?? 'error'}`);
  walk.depth++;
  for (const s of script.commands) visit(s, scope, walk, role, piped);
  walk.depth--;
}

function visit(node: SyntaxNode, scope: Scope, walk: Walk, role: Role, piped: Piped | undefined): void {
  switch (node.type) {
    case 'Statement':
      visit(node.command, node.background === true ? cloneScope(scope) : scope, walk, role, piped);
      return;
    case 'Pipeline': {
      let from: Piped | undefined = piped;
      for (const c of node.commands) {
        visit(c, node.commands.length > 1 ? cloneScope(scope) : scope, walk, role, from);
        from =
          c.type === 'Command' && c.name
            ? outputOf(
                [c.name, ...c.args].flatMap((w) => wordsOf(w, scope)),
                inputOf(c.redirects, scope),
                from,
              )
            : outputOf([literal(UNKNOWN)], undefined, from);
      }
      return;
    }
    case 'Command':
      visitCommand(node, scope, walk, role, piped);
      return;
    case 'Script':
      walkScript(node, cloneScope(scope), walk, role);
      return;
    case 'Subshell':
    case 'Coproc': {
      const inner = cloneScope(scope);
      forEachChild(node, (child) => visit(child, inner, walk, role, piped));
      return;
    }
    case 'Redirected':
      visit(node.command, scope, walk, role, piped);
      if (!walk.inner) walk.at = [node.pos, node.end];
      emit(
        { words: [], assigns: [], ...bare(scope, role), redirects: redirectsOf(node.redirects, scope) },
        scope,
        walk,
      );
      for (const r of node.redirects) substitutions(r, scope, walk, role);
      return;
    case 'AndOr':
      visitList(node, scope, walk, role, piped);
      return;
    case 'If':
      visitIf(node, scope, walk, role, piped);
      return;
    case 'Case':
      visitCase(node, scope, walk, role, piped);
      return;
    case 'For':
    case 'Select':
    case 'While':
    case 'ArithmeticFor':
    case 'Function': {
      if (node.type === 'Function') scope.functions.set(node.name.value, node.body);
      taint(node, scope);
      const inner = cloneScope(scope);
      forEachChild(node, (child) => visit(child, inner, walk, role, piped));
      if (node.type === 'For') visitRounds(node, scope, walk, piped);
      return;
    }
    default:
      forEachChild(node, (child) => visit(child, scope, walk, role, piped));
  }
}

type Of<T extends SyntaxNode['type']> = Extract<SyntaxNode, { type: T }>;

/** A list with `&&` and `||`: what stands behind the first command may not run, and behind `||` the command before failed. */
function visitList(node: Of<'AndOr'>, scope: Scope, walk: Walk, role: Role, piped: Piped | undefined): void {
  const before = cloneScope(scope);
  const ends: Scope[] = [];
  node.commands.forEach((command, i) => {
    if (i === 0 || node.operators[i - 1] === '&&') visit(command, scope, walk, role, piped);
    else {
      const failed = cloneScope(before);
      if (i > 1) mergeScope(failed, scope);
      visit(command, failed, walk, role, piped);
      if (!leaves(command)) ends.push(failed);
    }
    ends.push(cloneScope(scope));
  });
  for (const end of ends) mergeScope(scope, end);
}

/** Each branch starts from what the conditions before it left, whether they held or not. */
function visitIf(node: Of<'If'>, scope: Scope, walk: Walk, role: Role, piped: Piped | undefined): void {
  const held = cloneScope(scope);
  visit(node.clause, held, walk, role, piped);
  visit(node.then, cloneScope(held), walk, role, piped);
  const failed = cloneScope(scope);
  mergeScope(failed, held);
  for (const branch of node.elif) {
    const entered = cloneScope(failed);
    forEachChild(branch, (child) => visit(child, entered, walk, role, piped));
    taint(branch, failed);
  }
  if (node.else !== undefined) visit(node.else, failed, walk, role, piped);
  taint(node, scope);
}

function visitCase(node: Of<'Case'>, scope: Scope, walk: Walk, role: Role, piped: Piped | undefined): void {
  substitutions(node.word, scope, walk, role);
  let entered = cloneScope(scope);
  for (const item of node.items) {
    for (const word of item.pattern) substitutions(word, scope, walk, role);
    visit(item.body, entered, walk, role, piped);
    const after = entered;
    entered = cloneScope(scope);
    if (item.terminator !== ';;') mergeScope(entered, after);
  }
  taint(node, scope);
}

const MAX_CALLS = 64;

/** Looks at the body of a function once more where it is called, by what tightens only. */
function visitCall(words: readonly Resolved[], scope: Scope, walk: Walk, piped: Piped | undefined): void {
  const body = scope.functions.get(words[0]?.text ?? '');
  if (body === undefined) return;
  walk.calls = (walk.calls ?? 0) + 1;
  if (walk.calls > MAX_CALLS || walk.depth >= MAX_DEPTH) {
    report(walk, 'too many calls of functions');
    return;
  }
  const inner = cloneScope(scope);
  const given = words.slice(1).map((w) => w.text);
  for (const name of ['@', '*']) inner.vars.set(name, given.join(' '));
  given.forEach((text, i) => {
    inner.vars.set(String(i + 1), text);
  });
  walk.depth++;
  visit(body, inner, walk, 'strict', piped);
  walk.depth--;
}

const MAX_ROUNDS = 8;

/** Looks at the body of a loop once more with each literal value of its variable, by what tightens only. */
function visitRounds(
  node: Extract<SyntaxNode, { type: 'For' }>,
  scope: Scope,
  walk: Walk,
  piped: Piped | undefined,
): void {
  const values = (node.wordlist ?? []).flatMap((w) => wordsOf(w, scope)).filter((w) => !w.unresolved);
  if (walk.depth >= MAX_DEPTH) return;
  walk.depth++;
  for (const { text } of values.slice(0, MAX_ROUNDS)) {
    const round = cloneScope(scope);
    round.vars.set(node.name.value, text);
    visit(node.body, round, walk, 'strict', piped);
  }
  walk.depth--;
}

const bare = (scope: Scope, role: Role) => ({ cwd: scope.cwd, role, input: undefined, piped: undefined });

function substitutions(node: SyntaxNode, scope: Scope, walk: Walk, role: Role): void {
  if (node.type === 'Script') walkScript(node, cloneScope(scope), walk, role);
  else forEachChild(node, (child) => substitutions(child, scope, walk, role));
}

function wordOf(node: SyntaxNode, scope: Scope): Resolved {
  if (node.type === 'Word') return resolveWord(node, scope);
  if (node.type !== 'Assignment' || node.value.type !== 'Word') return literal(UNKNOWN);
  const value = resolveWord(node.value, scope);
  return { ...value, text: `${node.name}${node.append === true ? '+' : ''}=${value.text}` };
}

function wordsOf(node: SyntaxNode, scope: Scope): Resolved[] {
  const braced = node.type === 'Word' && node.parts?.some((p) => p.type === 'BraceExpansion') === true;
  const expanded = braced ? expandBraces(node.text) : undefined;
  if (expanded === undefined) return [wordOf(node, scope)];
  return expanded.map((text) => ({ ...literal(tilde(text, text, scope)), glob: /[*?[]/.test(text), source: text }));
}

function redirectsOf(list: readonly Redirection[], scope: Scope): Redirected[] {
  const out: Redirected[] = [];
  for (const r of list) {
    if (r.type !== 'Redirect') continue;
    out.push({ op: r.operator, target: r.target ? resolveWord(r.target, scope) : literal(UNKNOWN) });
  }
  return out;
}

function inputOf(list: readonly Redirection[], scope: Scope): string | undefined {
  let input: string | undefined;
  for (const r of list) {
    if (r.type === 'HereString') input = r.target ? resolveWord(r.target as Word, scope).text : UNKNOWN;
    else if (r.type === 'HereDoc') {
      const live = r.delimiter?.quoted !== true && /[$`\\]/.test(r.body.text);
      input = live ? `${r.body.text}${UNKNOWN}` : r.body.text;
    } else if (r.operator === '<' && r.descriptor === undefined) input = UNKNOWN;
  }
  return input;
}

type CommandNode = Extract<SyntaxNode, { type: 'Command' }>;

function visitCommand(node: CommandNode, scope: Scope, walk: Walk, role: Role, piped: Piped | undefined): void {
  forEachChild(node, (child) => substitutions(child, scope, walk, role));
  const words = node.name === undefined ? [] : [node.name, ...node.args].flatMap((a) => wordsOf(a, scope));
  const assigns: { name: string; value: string }[] = [];
  const prefix = node.prefix.filter((p) => p.type === 'Assignment');
  for (const p of prefix) {
    const value = p.value.type === 'Word' && p.append !== true ? resolveWord(p.value, scope).text : UNKNOWN;
    assigns.push({ name: p.name, value });
    if (node.name === undefined) scope.vars.set(p.name, value);
  }
  const declares = /^(export|declare|typeset|local|readonly)$/.test(words[0]?.text ?? '');
  if (declares)
    for (const w of words.slice(1)) {
      const m = /^([A-Za-z_]\w*)\+?=(.*)$/s.exec(w.text);
      if (m?.[1] === undefined) continue;
      assigns.push({ name: m[1], value: m[2] ?? '' });
      const changed = w.text.includes('+=') || words.some((x) => /^-[a-zA-Z]*[naAiulc]/.test(x.text));
      scope.vars.set(m[1], changed ? UNKNOWN : (m[2] ?? ''));
    }
  const redirects = redirectsOf(node.redirects, scope);
  if (!walk.inner) walk.at = [node.pos, node.end];
  emit({ words, assigns, redirects, cwd: scope.cwd, role, input: inputOf(node.redirects, scope), piped }, scope, walk);
  visitCall(words, scope, walk, piped);
  updateState(words, scope);
}

const borneBy = (simple: Simple): Script[] =>
  [...borneScripts(baseName(simple.words[0]?.text ?? ''), simple.words), ...assignedScripts(simple.assigns)].map(
    (text) => ({ text, role: 'strict' }),
  );

const placed = (walk: Walk): { at?: Span } => (walk.at === undefined ? {} : { at: walk.at });

/** Records a simple command and whatever it would start. */
export function emit(simple: Simple, scope: Scope, walk: Walk): void {
  if (walk.simples.length >= MAX_COMMANDS) {
    report(walk, 'over 256 simple commands');
    if (walk.simples.length >= MAX_COMMANDS * 8) return;
  }
  if (walk.depth > MAX_DEPTH) report(walk, 'nesting is over 16 levels');
  if (walk.depth > HARD_DEPTH) return;
  walk.depth++;
  const opened = unwrap(simple);
  const wraps = opened.own === 'strict';
  walk.simples.push({ ...simple, role: wraps ? 'strict' : simple.role, wraps, ...placed(walk) });
  for (const { words, assigns, folder, spent, ...started } of opened.commands) {
    const role = simple.role === 'strict' ? 'strict' : started.role;
    const cwd = folder === undefined ? simple.cwd : movedTo(simple.cwd, folder);
    const from = spent === true ? { input: undefined, piped: undefined } : {};
    emit({ ...simple, ...from, redirects: [], assigns, words, role, cwd }, scope, walk);
  }
  const inner = simple.input === undefined ? simple.piped : { text: simple.input, programs: [] };
  for (const script of [...opened.scripts, ...borneBy(simple)]) {
    const role = simple.role === 'strict' ? 'strict' : script.role;
    const known = !script.text.includes(UNKNOWN);
    if (!known)
      walk.simples.push({
        ...simple,
        words: [literal(UNKNOWN)],
        redirects: [],
        assigns: [],
        role,
        input: undefined,
        ...placed(walk),
      });
    // INVARIANT: what is known of a script that is not known whole is still looked at, by what tightens only.
    const before = walk.simples.length;
    const from = { ...cloneScope(scope), cwd: script.later === true && walk.moves === true ? undefined : simple.cwd };
    walk.inner = (walk.inner ?? 0) + 1;
    if (script.text !== UNKNOWN)
      walkText(script.text, from, walk, known ? role : 'strict', script.fromInput ? undefined : inner);
    walk.inner -= 1;
    if (known && script.text.trim() !== '' && walk.simples.length === before)
      report(walk, 'a script holds nothing that runs');
  }
  walk.depth--;
}
