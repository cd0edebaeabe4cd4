import { forEachChild, parse, type SyntaxNode } from 'unbash';
import { defaultProfile } from './decide.ts';
import { effectiveFacts } from './effective-facts.ts';
import { judgeBash } from './judge-bash.ts';
import { liftedBy } from './lift.ts';
import { isSandboxed } from './modes.ts';
import { canonicalTool, patternKind } from './tools.ts';
import type { Call, Facts, Finding, PolicySet } from './types.ts';

/** What a stretch of a shell text is. */
export const TOKEN_KINDS = [
  'program',
  'option',
  'word',
  'string',
  'expansion',
  'assignment',
  'redirect',
  'operator',
  'comment',
] as const;
export type TokenKind = (typeof TOKEN_KINDS)[number];

/** A stretch of a text; `start` and `end` are UTF-16 units. */
export interface CommandToken {
  readonly start: number;
  readonly end: number;
  readonly kind: TokenKind;
}

/** A command of the text that decided, with everything that was found in it. */
export interface DecisivePart {
  readonly start: number;
  readonly end: number;
  readonly effect: 'ask' | 'deny';
  readonly reasons: readonly string[];
  readonly rules: readonly string[];
}

/** A shell text as the engine reads it. */
export interface CommandParts {
  /** Without overlaps, in order; blanks belong to none. */
  readonly tokens: readonly CommandToken[];
  readonly decisive: readonly DecisivePart[];
  /** Why the text cannot be judged part by part. */
  readonly problems: readonly string[];
}

const MAX_LENGTH = 65_536;
const NONE = 255;

const kindOfWord = (text: string): TokenKind => {
  if (/^['"]|^\$'/.test(text)) return 'string';
  return /^[-+]./.test(text) ? 'option' : 'word';
};

type Paint = (start: number, end: number, kind: TokenKind) => void;

/** Outer nodes first, so that what stands inside is painted over them. */
function paintNode(node: SyntaxNode, paint: Paint): void {
  if (node.type === 'Command') {
    for (const word of node.args) if (word.type === 'Word') paint(word.pos, word.end, kindOfWord(word.text));
    if (node.name) paint(node.name.pos, node.name.end, 'program');
  }
  if (node.type === 'Assignment') paint(node.pos, node.end, 'assignment');
  if (node.type === 'Redirect' || node.type === 'HereDoc' || node.type === 'HereString')
    paint(node.pos, node.end, 'redirect');
  if (/Expansion$/.test(node.type)) paint(node.pos, node.end, 'expansion');
  forEachChild(node, (child) => paintNode(child, paint));
}

/** What no node of the tree stands for: comments, and keywords and operators. */
function paintRest(text: string, kinds: Uint8Array, paint: Paint): void {
  for (let at = 0; at < text.length; at += 1) {
    if (kinds[at] !== NONE || /\s/.test(text[at] ?? '')) continue;
    let end = at;
    const isComment = text[at] === '#' && (at === 0 || /[\s;&|()]/.test(text[at - 1] ?? ''));
    const goesOn = (c: string): boolean => (isComment ? c !== '\n' : !/\s/.test(c));
    while (end < text.length && kinds[end] === NONE && goesOn(text[end] ?? '\n')) end += 1;
    paint(at, end, isComment ? 'comment' : 'operator');
    at = end - 1;
  }
}

function tokensOf(text: string): CommandToken[] {
  const kinds = new Uint8Array(text.length).fill(NONE);
  const starts = new Uint8Array(text.length);
  const paint: Paint = (start, end, kind) => {
    kinds.fill(TOKEN_KINDS.indexOf(kind), start, end);
    starts[start] = 1;
    if (end < text.length) starts[end] = 1;
  };
  for (const command of parse(text).commands) paintNode(command, paint);
  paintRest(text, kinds, paint);
  const tokens: CommandToken[] = [];
  for (let at = 0; at < text.length; ) {
    let end = at + 1;
    while (end < text.length && kinds[end] === kinds[at] && starts[end] === 0) end += 1;
    const kind = TOKEN_KINDS[kinds[at] ?? NONE];
    if (kind !== undefined && text.slice(at, end).trim() !== '') tokens.push({ start: at, end, kind });
    at = end;
  }
  return tokens;
}

/** Findings of the same command become one part; what has no place in the text is left to the call's reasons. */
function partsOf(deciding: readonly Finding[]): DecisivePart[] {
  const parts = new Map<string, { start: number; end: number; effect: 'ask' | 'deny'; found: Finding[] }>();
  for (const finding of deciding) {
    if (finding.at === undefined) continue;
    const [start, end] = finding.at;
    const known = parts.get(`${start}-${end}`);
    if (known) known.found.push(finding);
    else parts.set(`${start}-${end}`, { start, end, effect: finding.effect, found: [finding] });
  }
  return [...parts.values()]
    .sort((a, b) => a.start - b.start || b.end - a.end)
    .map(({ found, ...place }) => ({
      ...place,
      reasons: [...new Set(found.map(({ text }) => text))],
      rules: [...new Set(found.flatMap(({ rule }) => (rule === undefined ? [] : [rule.source.id ?? rule.label])))],
    }));
}

/**
 * The words of a shell command and the parts of it that decide, as `decide` judges them with the same facts. Undefined for
 * a call of another tool. Total: a text that cannot be read has no tokens and a problem.
 */
export function commandParts(set: PolicySet, call: Call, stated: Facts): CommandParts | undefined {
  const tool = canonicalTool(call.tool);
  const text = call.args?.command;
  if (patternKind(tool) !== 'command' || typeof text !== 'string') return undefined;
  if (text.length > MAX_LENGTH) return { tokens: [], decisive: [], problems: ['the command is over 64 KiB'] };
  try {
    const facts = effectiveFacts(set, stated);
    const profile = typeof call.args.profile === 'string' ? call.args.profile : defaultProfile(set, facts);
    const found = judgeBash(call, set, facts, { tool, sandboxed: isSandboxed(set, facts, profile) });
    const denied = found.filter(({ effect }) => effect === 'deny');
    const deciding =
      denied.length > 0 ? denied : found.filter((finding) => liftedBy(finding, set, facts) === undefined);
    const problems = found.filter(({ kind }) => kind === 'unreadable').map((finding) => finding.text);
    return { tokens: tokensOf(text), decisive: partsOf(deciding), problems: [...new Set(problems)] };
  } catch (cause) {
    return { tokens: [], decisive: [], problems: [cause instanceof Error ? cause.message : 'unknown fault'] };
  }
}
