import { err, ok, type Result } from '@countersign/kernel';
import { compileHostPattern, findSuspicious } from '@countersign/patterns';
import { decide } from './decide.ts';
import { defaultFacts } from './facts.ts';
import { queueProblems } from './governance/queue-problems.ts';
import { type Layers, mergeLayers, type Trusted } from './layers.ts';
import { nearest } from './nearest.ts';
import { actionOf, canonicalTool, patternKind, toolNames } from './tools.ts';
import {
  type ExampleCall,
  LAYER_NAMES,
  MODES,
  type PolicyLoadError,
  type PolicySet,
  type RuleSource,
} from './types.ts';

const BACKENDS = ['app-guard', 'bubblewrap', 'seatbelt', 'auto'] as const;
const LISTS = ['allowRules', 'askRules', 'denyRules'] as const;
const ARGUMENT: Readonly<Record<string, string>> = { command: 'command', path: 'path', host: 'url' };

function exampleCall(example: string | ExampleCall, tool: string): { tool: string; args: Record<string, unknown> } {
  if (typeof example !== 'string')
    return { tool: example.tool === undefined ? tool : canonicalTool(example.tool), args: { ...example.args } };
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
      : `example \`${JSON.stringify(example).slice(0, 200)}\` ${wanted ? 'does not match' : 'matches'}`;
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

interface Problem {
  readonly message: string;
  readonly suggestion: string;
}

const RULE_KEYS = ['toolName', 'pattern', 'reason', 'reviewer', 'approvals', 'queue', 'id', 'match', 'notMatch'];

function fieldProblem(rule: RuleSource): Problem | undefined {
  // INVARIANT: an unknown key is an error; a misspelt `pattern` would leave a rule that covers every call.
  const unknown = Object.keys(rule).find((key) => !RULE_KEYS.includes(key));
  if (unknown !== undefined) {
    const meant = nearest(unknown, RULE_KEYS);
    const suggestion = meant === undefined ? `use one of ${RULE_KEYS.join(', ')}` : `write \`${meant}\``;
    return { message: `\`${unknown.slice(0, 100)}\` is not known in a rule`, suggestion };
  }
  for (const key of ['reason', 'reviewer', 'queue', 'id'] as const)
    if (rule[key] !== undefined && (typeof rule[key] !== 'string' || rule[key] === ''))
      return { message: `\`${key}\` must be a text`, suggestion: `write a text or remove \`${key}\`` };
  const { approvals } = rule;
  if (approvals !== undefined && !(Number.isSafeInteger(approvals) && approvals >= 1 && approvals <= 20))
    return {
      message: '`approvals` must be a whole number from 1 to 20',
      suggestion: 'write how many people must approve',
    };
  for (const key of ['match', 'notMatch'] as const)
    if (rule[key] !== undefined && !Array.isArray(rule[key]))
      return { message: `\`${key}\` must be a list of examples`, suggestion: 'put the examples in a list' };
  return undefined;
}

function toolProblem(rule: RuleSource): Problem | undefined {
  const tool = canonicalTool(rule.toolName);
  if (tool === '')
    return { message: 'a rule needs a `toolName`', suggestion: `add \`toolName\`: ${toolNames().join(', ')}` };
  const star = tool.indexOf('*');
  if (star !== -1 && star !== tool.length - 1)
    return {
      message: 'a `*` in `toolName` must be its last character',
      suggestion: `write \`${tool.slice(0, star)}*\``,
    };
  if (star !== -1 || actionOf(tool) !== undefined) return undefined;
  if (tool.startsWith('mcp__'))
    return {
      message: `\`${tool.slice(0, 100)}\` does not name one tool of one server`,
      suggestion: 'write `mcp__<server>__<tool>` where neither part holds `__`, and the tool does not start with `_`',
    };
  const meant = nearest(tool, toolNames());
  const suggestion = meant === undefined ? `use one of ${toolNames().join(', ')}` : `write \`${meant}\``;
  return { message: `\`${tool.slice(0, 100)}\` is not a tool`, suggestion };
}

function patternProblem(rule: RuleSource): Problem | undefined {
  const { pattern } = rule;
  if (pattern === undefined) return undefined;
  if (typeof pattern !== 'string' || pattern.trim() === '' || pattern.length > 4096)
    return { message: '`pattern` must be a text of 1 to 4096 characters', suggestion: 'remove it to match every call' };
  const odd = findSuspicious(pattern);
  if (odd !== undefined)
    return {
      message: `\`pattern\` holds the invisible or control character ${odd}`,
      suggestion: 'remove the character',
    };
  if (patternKind(canonicalTool(rule.toolName)) === 'host' && compileHostPattern(pattern) === undefined)
    return {
      message: `\`${pattern}\` is not a host pattern`,
      suggestion: 'write `example.com`, `*.example.com` or an exact address, with an optional port and path',
    };
  return undefined;
}

function ruleProblem(rule: RuleSource, list: (typeof LISTS)[number]): Problem | undefined {
  if (typeof rule !== 'object' || rule === null || Array.isArray(rule))
    return { message: 'a rule must be a map', suggestion: 'write `toolName` and `pattern`' };
  const problem = fieldProblem(rule) ?? toolProblem(rule) ?? patternProblem(rule);
  if (problem !== undefined) return problem;
  const example = examplesProblem(rule, list);
  return example === undefined ? undefined : { message: example, suggestion: 'correct the pattern or the example' };
}

function layerProblems(name: string, layer: object): PolicyLoadError[] {
  const out: PolicyLoadError[] = [];
  const record = layer as Record<string, unknown>;
  const fail = (rule: string, message: string, suggestion?: string): void =>
    void out.push({ layer: name, rule, message, ...(suggestion === undefined ? {} : { suggestion }) });
  if (record.mode !== undefined && !MODES.some((m) => m === record.mode))
    fail('mode', '`mode` must be strict, dev, networked or yolo');
  if (record.sandboxBackend !== undefined && !BACKENDS.some((b) => b === record.sandboxBackend))
    fail('sandboxBackend', `\`sandboxBackend\` must be ${BACKENDS.join(', ')}`);
  for (const key of ['allowedHosts', 'forbiddenHosts']) {
    const hosts = record[key] ?? [];
    if (!Array.isArray(hosts)) fail(key, `\`${key}\` must be a list`);
    else
      for (const h of hosts)
        if (typeof h !== 'string' || compileHostPattern(h) === undefined || /^\*+$/.test(h))
          fail(key, `\`${String(h)}\` is not a host pattern`, 'write `example.com` or `*.example.com`');
  }
  for (const list of LISTS) {
    const rules = record[list] ?? [];
    if (!Array.isArray(rules)) fail(list, `\`${list}\` must be a list`);
    else
      rules.forEach((rule: RuleSource, i) => {
        const problem = ruleProblem(rule, list);
        if (problem !== undefined) fail(`${list}[${i}]`, problem.message, problem.suggestion);
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

/**
 * Loads layers into one policy set. One invalid rule makes the whole set invalid. `trusted` names the workspace layers whose
 * present content an operator trusted at the desk; all others only tighten.
 */
export function loadPolicySet(layers: Layers, trusted: Trusted = []): Result<PolicySet, PolicyLoadError[]> {
  try {
    const problems: PolicyLoadError[] = [];
    for (const [name, layer] of Object.entries(layers)) {
      if (!LAYER_NAMES.some((n) => n === name)) problems.push({ layer: name, rule: '', message: 'is not a layer' });
      else if (typeof layer !== 'object' || layer === null)
        problems.push({ layer: name, rule: '', message: 'must be an object' });
      else problems.push(...layerProblems(name, layer), ...(name === 'managed' ? queueProblems(layer.queues) : []));
    }
    return problems.length > 0 ? err(problems) : ok(mergeLayers(layers, trusted));
  } catch (cause) {
    return err([{ layer: '', rule: '', message: cause instanceof Error ? cause.message : 'cannot be read' }]);
  }
}
