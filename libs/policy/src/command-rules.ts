import type { CommandPattern } from '@countersign/patterns';
import { hazardOptions } from './bash/hazards.ts';
import { inlineCode } from './bash/inline-code.ts';
import { takesData } from './bash/programs.ts';
import type { Simple } from './bash/walk.ts';
import { type Resolved, UNKNOWN } from './bash/words.ts';
import { baseName } from './bash/wrappers.ts';
import { show } from './path-rules.ts';
import type { CommandRule, CommandRules } from './rule-index.ts';
import type { Finding } from './types.ts';

const MAX_VARIANTS = 48;
const join = (words: readonly Resolved[]): string => words.map((x) => x.text).join(' ');

/** The spellings in which deny and ask rules see a command. */
function variants(words: readonly Resolved[]): string[] {
  const first = words[0]?.text ?? '';
  const name = baseName(first).replace(/^git-(?=[a-z])/, 'git ');
  const rest = words.slice(1);
  const starts = new Set([0]);
  for (const at of starts) {
    if (starts.size > MAX_VARIANTS) break;
    if (!(rest[at]?.text ?? '').startsWith('-')) continue;
    starts.add(at + 1);
    if (at + 2 <= rest.length) starts.add(at + 2);
  }
  const out = [join(words)];
  for (const at of starts) {
    const first = rest[at];
    const masked = first?.glob === true ? [{ ...first, text: UNKNOWN }, ...rest.slice(at + 1)] : rest.slice(at);
    out.push([name, ...masked.map((x) => x.text)].join(' '));
  }
  return out;
}

function fits(pattern: CommandPattern | undefined, text: string): boolean {
  const at = text.indexOf(UNKNOWN);
  if (at === -1) return false;
  if (pattern === undefined) return true;
  const known = text.slice(0, at);
  return known.startsWith(pattern.literalPrefix) || pattern.literalPrefix.startsWith(known);
}

/** Rules that an argument of a program, taken as a command of its own, matches. */
function startedBy(words: readonly Resolved[], rules: CommandRules['tight']): Set<CommandRule> {
  const out = new Set<CommandRule>();
  for (let i = 1; i < words.length && i < 33; i++) {
    const text = [baseName(words[i]?.text ?? ''), ...words.slice(i + 1).map((x) => x.text)].join(' ');
    for (const r of rules.near([text])) if (r.pattern?.matchesStrict(text)) out.add(r);
  }
  return out;
}

const MAX_CODE = 16_384;
const MAX_CODE_WORDS = 256;

/** Rules that match words of program text in which a command may be started. */
function startedInCode(simple: Simple, rules: CommandRules['tight']): Set<CommandRule> {
  const out = new Set<CommandRule>();
  for (const code of inlineCode(simple)) {
    const parts = code
      .slice(0, MAX_CODE)
      .split(/[\s"'`,;()[\]{}!|&=]+/)
      .filter((x) => x !== '');
    parts.slice(0, MAX_CODE_WORDS).forEach((part, i) => {
      const text = [baseName(part), ...parts.slice(i + 1, i + 9)].join(' ');
      for (const r of rules.near([text])) if (r.pattern?.matchesStrict(text)) out.add(r);
    });
  }
  return out;
}

/** Deny and ask findings of the command rules for one simple command. */
export function judgeCommandRules(simple: Simple, rules: CommandRules['tight']): Finding[] {
  const words = simple.words;
  if (words.length === 0 || rules.all.length === 0) return [];
  const out: Finding[] = [];
  const texts = variants(words);
  const seen = new Set<CommandRule>();
  const add = (r: CommandRule, kind: 'rule' | 'possible', how: string): void => {
    if (seen.has(r)) return;
    seen.add(r);
    const effect = kind === 'rule' ? r.rule.effect : 'ask';
    out.push({
      effect: effect === 'deny' ? 'deny' : 'ask',
      kind,
      rule: r.rule,
      text: `\`${show(join(words))}\` ${how} the ${r.rule.label}`,
    });
  };
  for (const r of rules.bare) add(r, 'rule', 'matches');
  for (const r of rules.near(texts)) if (texts.some((t) => r.pattern?.matchesStrict(t))) add(r, 'rule', 'matches');
  const open = texts.filter((t) => t.includes(UNKNOWN));
  const possible = 'is unresolved and could match';
  if (words[0]?.glob === true) for (const r of rules.all) add(r, 'possible', possible);
  for (const text of open)
    for (const r of rules.around(text.slice(0, text.indexOf(UNKNOWN))))
      if (fits(r.pattern, text)) add(r, 'possible', possible);
  const started = 'could start what is named by';
  if (!takesData(words)) for (const r of startedBy(words, rules)) add(r, 'possible', started);
  for (const r of startedInCode(simple, rules)) add(r, 'possible', started);
  return out;
}

/** Whether a pattern spells every hazard, each as often as the command holds it. */
function spellsAll(pattern: CommandPattern, hazards: readonly string[]): boolean {
  if (!pattern.hasWildcard) return true;
  const words = pattern.source.split(' ');
  return hazards.every((option) => {
    const at = words.findIndex((x) => x === option || x.startsWith(`${option}=`));
    if (at === -1) return false;
    words.splice(at, 1);
    return true;
  });
}

/** The allow rules that cover a simple command. */
export function coveringAllows(simple: Simple, rules: CommandRules['allow']): CommandRule[] {
  const words = simple.words;
  const first = words[0];
  if (first === undefined || words.some((x) => x.unresolved) || first.glob || /\s/.test(first.text)) return [];
  const text = join(words);
  const near = [...rules.bare, ...rules.near([text])].filter(
    ({ pattern }) =>
      pattern === undefined ||
      ((!first.text.includes('/') || pattern.literalPrefix.startsWith(first.text)) && pattern.matchesAllow(text)),
  );
  if (near.length === 0) return near;
  const hazards = hazardOptions(words);
  return near.filter(({ pattern }) => (pattern === undefined ? hazards.length === 0 : spellsAll(pattern, hazards)));
}

/** Whether an allow rule names the program without a wildcard, so that it may lift a risky form. */
export const namesProgram = ({ pattern }: CommandRule, simple: Simple): boolean =>
  pattern !== undefined && !/[*?]/.test(pattern.firstWord) && pattern.firstWord === simple.words[0]?.text;
