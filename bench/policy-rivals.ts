import { preparsePolicySet, statefulIsAuthorized } from '@cedar-policy/cedar-wasm/nodejs';
import { newEnforcer, newModelFromString } from 'casbin';
import picomatch from 'picomatch';
import { type BenchRule, SUBJECT } from './policy-rules.ts';

const ID = 'bench';

/** cedar-wasm with the set parsed beforehand, without entities. `ask` becomes a permit with an annotation. */
export function cedar(rules: readonly BenchRule[]): () => string {
  const staticPolicies = Object.fromEntries(
    rules.map(({ effect, tool, pattern }, i) => [
      `p${i}`,
      `@answer("${effect}") ${effect === 'deny' ? 'forbid' : 'permit'}(principal, action == Action::"${tool}", resource) when { context.subject like "${pattern}" };`,
    ]),
  );
  const parsed = preparsePolicySet(ID, { staticPolicies });
  if (parsed.type !== 'success') throw new Error(JSON.stringify(parsed.errors));
  const call = {
    principal: { type: 'Agent', id: 'a' },
    action: { type: 'Action', id: 'bash' },
    resource: { type: 'Project', id: 'p' },
    context: { subject: SUBJECT },
    preparsedPolicySetId: ID,
    entities: [],
  };
  return () => {
    const answer = statefulIsAuthorized(call);
    return answer.type === 'success' ? answer.response.decision : 'failure';
  };
}

const MODEL = `
[request_definition]
r = tool, subject
[policy_definition]
p = tool, pattern, eft
[policy_effect]
e = some(where (p.eft == allow)) && !some(where (p.eft == deny))
[matchers]
m = r.tool == p.tool && keyMatch(r.subject, p.pattern)
`;

/** casbin; its keyMatch reads everything behind the first star as free. */
export async function casbin(rules: readonly BenchRule[]): Promise<() => string> {
  const enforcer = await newEnforcer(newModelFromString(MODEL));
  await enforcer.addPolicies(
    rules.map(({ effect, tool, pattern }) => [tool, pattern, effect === 'deny' ? 'deny' : 'allow']),
  );
  return () => (enforcer.enforceSync('bash', SUBJECT) ? 'allow' : 'deny');
}

/** One compiled picomatch for each rule, looked at by tool. */
export function picomatchByTool(rules: readonly BenchRule[]): () => string {
  const byTool = Map.groupBy(rules, (rule) => rule.tool);
  const compiled = new Map(
    [...byTool].map(([tool, list]) => [
      tool,
      list.map(({ effect, pattern }) => ({ effect, matches: picomatch(pattern, { bash: true, dot: true }) })),
    ]),
  );
  return () => {
    const hit = new Set((compiled.get('bash') ?? []).filter((r) => r.matches(SUBJECT)).map((r) => r.effect));
    return hit.has('deny') ? 'deny' : hit.has('allow') ? 'allow' : 'ask';
  };
}
