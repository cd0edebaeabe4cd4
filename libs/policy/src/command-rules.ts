import { type CommandPattern, compileCommandPattern } from '@countersign/patterns';
import { hazardOptions } from './bash/hazards.ts';
import { takesData } from './bash/programs.ts';
import type { Simple } from './bash/walk.ts';
import { type Resolved, UNKNOWN } from './bash/words.ts';
import { baseName } from './bash/wrappers.ts';
import { show } from './path-rules.ts';
import { ruleCoversTool } from './tools.ts';
import type { Finding, PolicySet, Rule } from './types.ts';

export interface CommandRule {
  readonly rule: Rule;
  readonly pattern: CommandPattern | undefined;
}

/** The rules about shell commands, compiled. */
export function commandRules(set: PolicySet, tool: string): CommandRule[] {
  return set.rules
    .filter((rule) => ruleCoversTool(rule, tool))
    .map((rule) => ({ rule, pattern: rule.pattern === undefined ? undefined : compileCommandPattern(rule.pattern) }));
}

const MAX_VARIANTS = 48;
const join = (words: readonly Resolved[]): string => words.map((x) => x.text).join(' ');

/** The spellings in which deny and ask rules see a command. */
function variants(words: readonly Resolved[]): string[] {
  const first = words[0]?.text ?? '';
  const name = baseName(first);
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

/** Deny and ask findings of the command rules for one simple command. */
export function judgeCommandRules(simple: Simple, rules: readonly CommandRule[]): Finding[] {
  const words = simple.words;
  const tight = rules.filter((r) => r.rule.effect !== 'allow');
  if (words.length === 0 || tight.length === 0) return [];
  const out: Finding[] = [];
  const texts = variants(words);
  const name = baseName(words[0]?.text ?? '');
  const shown = show(join(words));
  const globProgram = words[0]?.glob === true;
  for (const { rule, pattern } of tight) {
    const rules = { rule, text: `\`${shown}\` matches the ${rule.label}` };
    if (texts.some((t) => pattern === undefined || pattern.matchesStrict(t)))
      out.push({ effect: rule.effect === 'deny' ? 'deny' : 'ask', kind: 'rule', ...rules });
    else if (globProgram || texts.some((t) => fits(pattern, t)))
      out.push({
        effect: 'ask',
        kind: 'possible',
        rule,
        text: `\`${shown}\` is unresolved and could match the ${rule.label}`,
      });
    else if (!takesData(name)) {
      for (let i = 1; i < words.length && i < 33; i++)
        if (
          pattern?.matchesStrict([baseName(words[i]?.text ?? ''), ...words.slice(i + 1).map((x) => x.text)].join(' '))
        ) {
          out.push({
            effect: 'ask',
            kind: 'possible',
            rule,
            text: `\`${shown}\` could start what the ${rule.label} names`,
          });
          break;
        }
    }
  }
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
export function coveringAllows(simple: Simple, rules: readonly CommandRule[]): CommandRule[] {
  const words = simple.words;
  const first = words[0];
  if (first === undefined || words.some((x) => x.unresolved) || first.glob || /\s/.test(first.text)) return [];
  const text = join(words);
  const hazards = hazardOptions(words);
  return rules.filter(({ rule, pattern }) => {
    if (rule.effect !== 'allow') return false;
    if (pattern === undefined) return hazards.length === 0;
    if (first.text.includes('/') && !pattern.literalPrefix.startsWith(first.text)) return false;
    if (!pattern.matchesAllow(text)) return false;
    return spellsAll(pattern, hazards);
  });
}

/** Whether an allow rule names the program without a wildcard, so that it may lift a risky form. */
export const namesProgram = ({ pattern }: CommandRule, simple: Simple): boolean =>
  pattern !== undefined && !/[*?]/.test(pattern.firstWord) && pattern.firstWord === simple.words[0]?.text;
