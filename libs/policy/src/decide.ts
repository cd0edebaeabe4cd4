import { canonicalHost, findSuspicious, fromWindowsPath, normalisePath, parseTarget } from '@countersign/patterns';
import { argumentProblem } from './arguments.ts';
import { effectiveFacts, isWindows } from './effective-facts.ts';
import { environmentNames } from './environment.ts';
import { judgeBash, writeScopes } from './judge-bash.ts';
import { judgeHost } from './judge-host.ts';
import { grantOffer, hasFullAccess, type Lifted, liftedBy, ruleOffer } from './lift.ts';
import { isSandboxed, tableAllows } from './modes.ts';
import { isAllowed, judgePath, realPath, show } from './path-rules.ts';
import { reviewOf } from './review.ts';
import { actionOf, canonicalTool, isMcpTool, patternKind } from './tools.ts';
import type { Call, Decision, Effect, Facts, Finding, Obligations, PolicySet } from './types.ts';

function judgePathCall(call: Call, set: PolicySet, facts: Facts, tool: string): Finding[] {
  const action = actionOf(tool) ?? 'write';
  const given = fromWindowsPath(typeof call.args.path === 'string' ? call.args.path : '.', isWindows(facts));
  const out: Finding[] = [];
  const odd = findSuspicious(given) ?? (/[\n\t]/.test(given) ? 'line break or tab' : undefined);
  if (odd !== undefined)
    out.push({ effect: 'ask', kind: 'unreadable', text: `suspicious character ${odd} in the path` });
  const path = normalisePath(given, facts.cwd, facts.home);
  const real = realPath(path, facts);
  const rules = set.index.paths(tool, facts);
  const scopes = writeScopes(path, facts);
  const grant = { tool, action, scopes };
  for (const f of judgePath(rules, path.replaceAll('\uffff', '?'), facts.cwd, facts, action, action === 'delete'))
    if (f.kind === 'rule') out.push({ ...f, grant });
  if (action === 'delete' && judgesRoot(path, real, facts))
    out.push({ effect: 'deny', kind: 'rule', text: `deleting \`${path}\` is a root-destroying form` });
  if (out.some((f) => f.kind === 'rule')) return out;
  const allowed = isAllowed(rules, path, real, facts);
  if (!allowed && !tableAllows(action, set, facts, false))
    out.push({
      effect: 'ask',
      kind: 'table',
      text: `\`${path}\` is covered by no allow rule (${set.mode} ${action})`,
      grant,
    });
  return out;
}

const judgesRoot = (path: string, real: string, facts: Facts): boolean =>
  [path, real].some((p) => p === '/' || [facts.home, facts.project].some((d) => d === p || d.startsWith(`${p}/`)));

function judgeProfile(call: Call, set: PolicySet, facts: Facts): Finding[] {
  const profile = call.args.profile;
  const hosts = Array.isArray(call.args.hosts) ? call.args.hosts.map(String) : [];
  if (profile === 'full-access') {
    const barred = set.ceilings.fullAccess === false || facts.security.hardened_mode;
    return [
      {
        effect: barred ? 'deny' : 'ask',
        kind: 'profile',
        text: barred ? 'profile `full-access` is above the ceiling' : 'profile `full-access` asked for',
      },
    ];
  }
  return hosts.flatMap((raw): Finding[] => {
    const m = /^(.*?)(?::(\d{1,5}))?$/.exec(raw);
    const host = canonicalHost(m?.[1] ?? raw);
    if (host === undefined || raw.includes('*'))
      return [{ effect: 'ask', kind: 'unreadable', text: `host \`${show(raw)}\` cannot be judged` }];
    return judgeHost(
      { host, port: m?.[2] === undefined ? undefined : Number(m[2]), path: '/' },
      set,
      facts,
      'web_fetch',
      'profile',
    );
  });
}

const isEverything = (pattern: string | undefined): boolean =>
  pattern === undefined || pattern === '*' || pattern === '**';

function judgeOther(set: PolicySet, facts: Facts, tool: string): Finding[] {
  const out: Finding[] = [];
  const odd = findSuspicious(tool);
  if (odd !== undefined)
    out.push({ effect: 'ask', kind: 'unreadable', text: `suspicious character ${odd} in the tool name` });
  const grant = { tool, action: actionOf(tool) ?? 'execute', scopes: [tool] };
  const rules = set.index.rulesOf(tool);
  for (const rule of rules)
    if (rule.effect !== 'allow' && rule.tool === '*' && !isEverything(rule.pattern))
      out.push({
        effect: 'ask',
        kind: 'possible',
        rule,
        text: `the ${rule.label} cannot be compared with \`${show(tool)}\``,
      });
    else if (rule.effect !== 'allow')
      out.push({ effect: rule.effect, kind: 'rule', rule, text: `\`${show(tool)}\` matches the ${rule.label}`, grant });
  if (out.some((f) => f.kind === 'rule')) return out;
  const allowed =
    (tool.startsWith('mcp__') ? isMcpTool(tool) : true) &&
    rules.some((r) => r.effect === 'allow' && isEverything(r.pattern));
  const table = tableAllows(
    'execute',
    set,
    facts,
    tool === 'python_exec' && isSandboxed(set, facts, defaultProfile(set, facts)),
  );
  if (!allowed && !table)
    out.push({
      effect: 'ask',
      kind: 'table',
      text: `\`${show(tool)}\` is covered by no allow rule (${set.mode} execute)`,
      grant,
    });
  if (facts.security.hardened_mode && tool === 'web_search')
    out.push({ effect: 'ask', kind: 'possible', text: 'the search provider is not in `allowedHosts`' });
  return out;
}

/** A hardened host runs nothing outside a platform sandbox. */
function judgeBackend(set: PolicySet, facts: Facts, tool: string, profile: string): Finding[] {
  const runs = patternKind(tool) === 'command' || tool === 'python_exec';
  if (!facts.security.hardened_mode || !runs || isSandboxed(set, facts, profile)) return [];
  return [{ effect: 'deny', kind: 'rule', text: 'hardened mode runs commands only in a platform sandbox' }];
}

function judge(call: Call, set: PolicySet, facts: Facts, tool: string, profile: string): Finding[] {
  switch (patternKind(tool)) {
    case 'command': {
      const sandboxed = isSandboxed(set, facts, profile);
      return [...judgeBash(call, set, facts, { tool, sandboxed }), ...judgeProfile(call, set, facts)];
    }
    case 'path':
      return judgePathCall(call, set, facts, tool);
    case 'host': {
      const target = tool === 'web_search' ? undefined : parseTarget(String(call.args.url));
      if (target !== undefined) {
        const odd = findSuspicious(String(call.args.url));
        const found = judgeHost(target, set, facts, tool, 'table');
        return odd === undefined
          ? found
          : [...found, { effect: 'ask', kind: 'unreadable', text: `suspicious character ${odd} in the address` }];
      }
      const provider = facts.searchHost === undefined ? undefined : canonicalHost(facts.searchHost);
      return provider === undefined
        ? judgeOther(set, facts, tool)
        : judgeHost({ host: provider, port: 443, path: '/' }, set, facts, tool, 'table');
    }
    default:
      return judgeOther(set, facts, tool);
  }
}

const mayStandIn = (set: PolicySet, facts: Facts): boolean => set.backendFallback && !facts.security.hardened_mode;

function obligationsOf(set: PolicySet, profile: string, call: Call, facts: Facts): Obligations {
  const named = canonicalTool(call.tool);
  // What a call about one file names was asked about; what a command or a search may meet was not.
  const effects = patternKind(named) !== 'path' || named === 'search' ? 'any' : 'deny';
  const asked = Array.isArray(call.args?.hosts) ? call.args.hosts.map(String) : [];
  const hosts = profile === 'networked' ? [...new Set([...set.allowedHosts, ...asked])].sort() : [];
  const shell = patternKind(canonicalTool(call.tool)) === 'command';
  return {
    profile,
    denyRead: set.index.obliged('read', effects),
    denyWrite: set.index.obliged('write', effects),
    hosts,
    ...(shell ? { environment: environmentNames(facts) } : {}),
    ...(shell && set.backend !== 'auto' ? { backend: set.backend, backendFallback: mayStandIn(set, facts) } : {}),
  };
}

/** The profile of a call that asks for none. */
export function defaultProfile(set: PolicySet, facts: Facts): string {
  if (hasFullAccess(set, facts) && !facts.security.hardened_mode) return 'full-access';
  return set.mode === 'networked' ? 'networked' : 'workspace-write';
}

const refusal = (set: PolicySet, effect: Effect, reason: string): Decision => ({
  effect,
  reasons: [reason],
  decidingRules: [],
  obligations: { profile: 'workspace-write', denyRead: [], denyWrite: [], hosts: [] },
  ignoredWidenings: set.ignoredWidenings,
  // SECURITY: an ask that nobody could judge is a person's; no mode, grant or model lifts it.
  askKinds: effect === 'ask' ? ['unreadable'] : [],
});

const WANTS_NETWORK =
  /(?:^|[;&|(\s])(?:(?:npm|pnpm|yarn) (?:ci|install|add|publish)|pip3? install|git (?:push|pull|fetch|clone)|curl|wget)(?:\s|$)/;

/** What to tell an agent whose command will fail for want of network. */
function networkHint(call: Call, profile: string): string[] {
  const command = call.args.command;
  if (profile !== 'workspace-write' || typeof command !== 'string' || !WANTS_NETWORK.test(command.slice(0, 4096)))
    return [];
  return ['this command needs the network: ask again with `profile: networked`, its `hosts` and a `reason`'];
}

/** What the decision owes to modes, grants and flags, and which grants would have spared the question. */
function liftsOf(effect: Effect, lifts: readonly Lifted[], open: readonly Finding[], call: Call): Partial<Decision> {
  const ids = lifts.flatMap(({ grant }) => (grant?.id === undefined ? [] : [grant.id]));
  const offer = effect === 'ask' ? grantOffer(open) : undefined;
  const rules = effect === 'ask' ? ruleOffer(open, call.args.path) : undefined;
  return {
    ...(lifts.length === 0 ? {} : { lifts: [...new Set(lifts.map(({ by }) => by))].sort() }),
    ...(ids.length === 0 ? {} : { usedGrants: [...new Set(ids)].sort() }),
    ...(offer === undefined ? {} : { grantOffer: offer }),
    ...(rules === undefined ? {} : { ruleOffer: rules }),
  };
}

function settle(found: readonly Finding[], call: Call, set: PolicySet, facts: Facts, profile: string): Decision {
  const denied = found.filter((f) => f.effect === 'deny');
  const lifts: Lifted[] = [];
  const lifted: string[] = [];
  const open: Finding[] = [];
  for (const f of found) {
    if (f.effect === 'deny') continue;
    const by = liftedBy(f, set, facts);
    if (by === undefined) open.push(f);
    else {
      lifts.push(by);
      lifted.push(`${f.text}; lifted by ${by.text}`);
    }
  }
  const deciding = denied.length > 0 ? denied : open;
  const effect: Effect = denied.length > 0 ? 'deny' : open.length > 0 ? 'ask' : 'allow';
  const reasons =
    deciding.length > 0
      ? deciding.map((f) => f.text)
      : lifted.length > 0
        ? lifted
        : [`allowed by the rules or the table (${set.mode})`];
  return {
    effect,
    reasons: [...[...new Set(reasons)].sort().slice(0, 64), ...networkHint(call, profile)],
    decidingRules: [
      ...new Set(deciding.flatMap((f) => (f.rule === undefined ? [] : [f.rule.source.id ?? f.rule.label]))),
    ].sort(),
    obligations: obligationsOf(set, profile, call, facts),
    ignoredWidenings: set.ignoredWidenings,
    askKinds: effect === 'ask' ? [...new Set(open.map((f) => f.kind))].sort() : [],
    ...(effect === 'ask' ? reviewOf(open, set) : {}),
    ...liftsOf(effect, lifts, open, call),
  };
}

/** Decides one call. Pure and total: whatever goes wrong inside becomes an `ask`. */
export function decide(set: PolicySet, call: Call, stated: Facts): Decision {
  try {
    const inForce = effectiveFacts(set, stated);
    const facts = call?.executor === 'agent' ? { ...inForce, sandboxed: false } : inForce;
    const tool = canonicalTool(call?.tool);
    if (tool === '') return refusal(set, 'error', 'the call names no tool');
    const problem = argumentProblem(tool, call.args, call.env);
    if (problem !== undefined) return refusal(set, 'error', problem);
    if (actionOf(tool) === undefined && call.executor !== 'agent')
      return refusal(set, 'error', `unknown tool \`${show(tool)}\``);
    const profile = typeof call.args.profile === 'string' ? call.args.profile : defaultProfile(set, facts);
    const found = [...judge(call, set, facts, tool, profile), ...judgeBackend(set, facts, tool, profile)];
    if (call.tighten !== undefined)
      found.push({
        effect: call.tighten.effect === 'deny' ? 'deny' : 'ask',
        kind: 'rule',
        text: `tightened by \`${show(String(call.tighten.source))}\``,
      });
    return settle(found, call, set, facts, profile);
  } catch (cause) {
    return refusal(
      set,
      'ask',
      `the call could not be judged: ${cause instanceof Error ? cause.message : 'unknown fault'}`,
    );
  }
}
