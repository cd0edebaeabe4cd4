import { err, ok, type Result } from '@countersign/kernel';
import { compileHostPattern, findSuspicious } from '@countersign/patterns';
import { decide } from './decide.ts';
import { defaultFacts } from './facts.ts';
import { type Layers, mergeLayers } from './layers.ts';
import { actionOf, canonicalTool, patternKind } from './tools.ts';
import {
  type ExampleCall,
  LAYER_NAMES,
  MODES,
  type PolicyLoadError,
  type PolicySet,
  type RuleSource,
} from './types.ts';

const LISTS = ['allowRules', 'askRules', 'denyRules'] as const;
const ARGUMENT: Readonly<Record<string, string>> = { command: 'command', path: 'path', host: 'url' };

function exampleCall(example: string | ExampleCall, tool: string): { tool: string; args: Record<string, unknown> } {
  if (typeof example !== 'string') return { tool: example.tool ?? tool, args: { ...example.args } };
  const kind = patternKind(tool);
  const args: Record<string, unknown> = { content: '', oldText: '', newText: '' };
  args[ARGUMENT[kind] ?? 'value'] = kind === 'host' && !example.includes('://') ? `https://${example}/` : example;
  return { tool, args };
}

function examplesProblem(rule: RuleSource, list: (typeof LISTS)[number]): string | undefined {
  const alone = mergeLayers({ user: { mode: list === 'allowRules' ? 'strict' : 'yolo', [list]: [rule] } });
  const facts = defaultFacts();
  const check = (example: string | ExampleCall, wanted: boolean): string | undefined => {
    const decision = decide(alone, exampleCall(example, canonicalTool(rule.toolName)), facts);
    const matched = list === 'allowRules' ? decision.effect === 'allow' : decision.decidingRules.length > 0;
    return matched === wanted
      ? undefined
      : `example \`${JSON.stringify(example).slice(0, 200)}\` ${wanted ? 'does not match' : 'matches'}; correct the pattern or the example`;
  };
  for (const e of rule.match ?? []) {
    const problem = check(e, true);
    if (problem !== undefined) return problem;
  }
  for (const e of rule.notMatch ?? []) {
    const problem = check(e, false);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function ruleProblem(rule: RuleSource, list: (typeof LISTS)[number]): string | undefined {
  if (typeof rule !== 'object' || rule === null) return 'a rule must be an object';
  if (typeof rule.toolName !== 'string' || rule.toolName === '') return 'a rule needs a `toolName`';
  const tool = canonicalTool(rule.toolName);
  const star = tool.indexOf('*');
  if (star !== -1 && star !== tool.length - 1) return 'a `*` in `toolName` must be its last character';
  if (star === -1 && actionOf(tool) === undefined) return `\`${tool}\` is not a tool; correct the name`;
  if (rule.pattern === undefined) return examplesProblem(rule, list);
  if (typeof rule.pattern !== 'string' || rule.pattern === '' || rule.pattern.length > 4096)
    return '`pattern` must be a text of 1 to 4096 characters';
  if (findSuspicious(rule.pattern) !== undefined) return '`pattern` holds an invisible or control character';
  if (patternKind(tool) === 'host' && compileHostPattern(rule.pattern) === undefined)
    return `\`${rule.pattern}\` is not a host pattern`;
  return examplesProblem(rule, list);
}

function layerProblems(name: string, layer: object): PolicyLoadError[] {
  const out: PolicyLoadError[] = [];
  const record = layer as Record<string, unknown>;
  const fail = (rule: string, message: string): void => void out.push({ layer: name, rule, message });
  if (record.mode !== undefined && !MODES.some((m) => m === record.mode))
    fail('mode', '`mode` must be strict, dev, networked or yolo');
  for (const key of ['allowedHosts', 'forbiddenHosts']) {
    const hosts = record[key] ?? [];
    if (!Array.isArray(hosts)) fail(key, `\`${key}\` must be a list`);
    else
      for (const h of hosts)
        if (typeof h !== 'string' || compileHostPattern(h) === undefined || /^\*+$/.test(h))
          fail(key, `\`${String(h)}\` is not a host pattern`);
  }
  for (const list of LISTS) {
    const rules = record[list] ?? [];
    if (!Array.isArray(rules)) fail(list, `\`${list}\` must be a list`);
    else
      rules.forEach((rule: RuleSource, i) => {
        const problem = ruleProblem(rule, list);
        if (problem !== undefined) fail(`${list}[${i}]`, problem);
      });
  }
  for (const key of ['lockedRules', 'defaults'])
    if (typeof record[key] === 'object' && record[key] !== null)
      out.push(...layerProblems(`${name}.${key}`, record[key]));
  const ceilings = record.ceilings;
  if (ceilings !== undefined && (typeof ceilings !== 'object' || ceilings === null))
    fail('ceilings', '`ceilings` must be an object');
  const cap = (ceilings as { mode?: unknown } | undefined)?.mode;
  if (cap !== undefined && !MODES.some((m) => m === cap))
    fail('ceilings.mode', 'must be strict, dev, networked or yolo');
  return out;
}

/** Loads layers into one policy set. One invalid rule makes the whole set invalid. */
export function loadPolicySet(layers: Layers): Result<PolicySet, PolicyLoadError[]> {
  try {
    const problems: PolicyLoadError[] = [];
    for (const [name, layer] of Object.entries(layers)) {
      if (!LAYER_NAMES.some((n) => n === name)) problems.push({ layer: name, rule: '', message: 'is not a layer' });
      else if (typeof layer !== 'object' || layer === null)
        problems.push({ layer: name, rule: '', message: 'must be an object' });
      else problems.push(...layerProblems(name, layer));
    }
    return problems.length > 0 ? err(problems) : ok(mergeLayers(layers));
  } catch (cause) {
    return err([{ layer: '', rule: '', message: cause instanceof Error ? cause.message : 'cannot be read' }]);
  }
}
