import { randomBytes } from 'node:crypto';
import { err, makeId, ok, type Result } from '@countersign/kernel';
import { compileHostPattern } from '@countersign/patterns';
import { ERROR_CODES } from '@countersign/protocol';
import type { Gateway } from '../context.ts';
import type { ChangeProblem } from '../layers/recorded-layers.ts';
import { ALWAYS_MS } from '../layers/saved-rules.ts';
import { type Ground, lastGround, lay } from '../layers/session-layers.ts';
import { type Fragment, fragmentText, reachText, type StoredRule } from '../layers/stored-rule.ts';
import { beyondChain, boundRules, widenedBy } from '../layers/within-ancestors.ts';
import type { Session, SessionChain } from '../record/sessions.ts';
import type { Update } from './updates.ts';

/** Rules that one commit changes at most; the record takes 32 documents, and request, session and epoch are among them. */
export const MAX_RULES = 24;

/** What updates would do, worked out before anybody answers and again at the answer. */
export type Plan = {
  /** One line for each thing that would be different, for people. */
  readonly says: readonly string[];
  /** The session with its new modes; absent when they stay. */
  readonly session?: Session;
  /** Rules that would be saved, and those that would end. */
  readonly rules: readonly StoredRule[];
};

/** Who asks, and on what request the rules would be saved. */
export type PlanFor = { readonly by: string; readonly from: string };

type Draft = {
  readonly gateway: Gateway;
  readonly chain: SessionChain;
  readonly about: PlanFor;
  readonly says: string[];
  session: Session;
  /** Rules as they would be, by id. */
  readonly rules: Map<string, StoredRule>;
  readonly changed: Set<string>;
};

const problem = (code: ChangeProblem['code'], message: string): ChangeProblem => ({ code, message });
type Destination = Update['destination'];
type RuleUpdate = Extract<Update, { rules: unknown }>;
const KEY = { allow: 'allowRules', ask: 'askRules', deny: 'denyRules' } as const;

/** The rules that an update of this destination may replace or remove: those that were saved exactly there. */
function savedAt({ rules, session, chain }: Draft, destination: Destination): StoredRule[] {
  const { agent, principal, host, project } = chain.session;
  return [...rules.values()].filter((rule) => {
    if (rule.layer !== destination || rule.state !== 'active') return false;
    if (destination === 'session') return rule.session === session.id;
    if (destination === 'user') return rule.principal === principal;
    if (rule.host !== host || rule.project !== project) return false;
    return destination === 'project' || (rule.agent === agent && rule.principal === principal);
  });
}

/** Saves a fragment; what widens ends after thirty days unless it ends with its session. */
function save(draft: Draft, destination: Destination, fragment: Fragment, like?: StoredRule): void {
  const { gateway, chain, about } = draft;
  const { agent, principal, host, project } = chain.session;
  const nowMs = gateway.now();
  const lasting = destination === 'session' || !widenedBy(fragment);
  const rule: StoredRule = {
    ...{ layer: destination, session: chain.session.id, principal, agent, host, project, files: [] },
    ...{ expires_ms: lasting ? null : nowMs + ALWAYS_MS, from: about.from },
    ...like,
    ...{ id: makeId('rul', nowMs, randomBytes), fragment, by: about.by, at_ms: nowMs, state: 'active' },
  };
  draft.rules.set(rule.id, rule);
  draft.changed.add(rule.id);
  const end = rule.expires_ms === null ? 'no end' : `until ${new Date(rule.expires_ms).toISOString().slice(0, 10)}`;
  if (!like) draft.says.push(...fragmentText(fragment).map((line) => `add ${line}; for ${reachText(rule)}; ${end}`));
}

/** Ends a saved rule and keeps the part of it that stays. */
function cut(draft: Draft, rule: StoredRule, rest: Fragment, gone: Fragment): void {
  draft.rules.set(rule.id, { ...rule, state: 'revoked', ended_by: draft.about.by });
  draft.changed.add(rule.id);
  draft.says.push(...fragmentText(gone).map((line) => `remove ${line}; for ${reachText(rule)}`));
  if (fragmentText(rest).length > 0) save(draft, rule.layer, rest, rule);
}

const sameRule = (a: { toolName: string; pattern?: string | undefined }, b: typeof a): boolean =>
  a.toolName === b.toolName && a.pattern === b.pattern;

/** Takes rules of one effect away from a destination, all of them without `which`; false when one was not there. */
function takeRules(draft: Draft, { effect, destination }: RuleUpdate, which?: RuleUpdate['rules']): boolean {
  const key = KEY[effect];
  const wanted = new Set(which);
  for (const rule of savedAt(draft, destination)) {
    const present = rule.fragment[key] ?? [];
    const gone = which ? present.filter((one) => which.some((other) => sameRule(one, other))) : present;
    if (gone.length === 0) continue;
    for (const one of wanted) if (gone.some((other) => sameRule(one, other))) wanted.delete(one);
    const rest = present.filter((one) => !gone.includes(one));
    const { [key]: _, ...others } = rule.fragment;
    cut(draft, rule, rest.length === 0 ? others : { ...others, [key]: rest }, { [key]: gone });
  }
  return wanted.size === 0;
}

function takeHosts(draft: Draft, destination: Destination): void {
  for (const rule of savedAt(draft, destination)) {
    const { allowedHosts, ...others } = rule.fragment;
    if (allowedHosts) cut(draft, rule, others, { allowedHosts });
  }
}

function setModes(draft: Draft, update: Extract<Update, { type: 'setMode' }>): ChangeProblem | undefined {
  if (update.destination !== 'session')
    return problem(ERROR_CODES.notOffered, 'a mode is set for a session; a lasting one belongs to the policy');
  const before = draft.session;
  const next = {
    ...before,
    permission_mode: update.mode ?? before.permission_mode,
    approval_mode: update.approvalMode ?? before.approval_mode,
  };
  const above = draft.gateway.policy.current.above(next);
  if (above) return problem(ERROR_CODES.ceiling, above);
  const beyond = beyondChain(next, draft.chain);
  if (beyond) return problem(ERROR_CODES.ceiling, beyond);
  if (next.permission_mode !== before.permission_mode)
    draft.says.push(`permission mode \`${before.permission_mode}\` becomes \`${next.permission_mode}\``);
  if (next.approval_mode !== before.approval_mode)
    draft.says.push(`approval mode \`${before.approval_mode}\` becomes \`${next.approval_mode}\``);
  draft.session = next;
  return undefined;
}

/** SECURITY: what no layer may add is refused when it is asked for, not only ignored later. */
function forbiddenHost(draft: Draft, hosts: readonly string[]): ChangeProblem | undefined {
  const forbidden = draft.gateway.policy.current.forbiddenHosts;
  const bad = hosts.find((host) => {
    const { host: name, wild } = compileHostPattern(host) ?? {};
    return name === undefined || forbidden.some((one) => covers(one, { name, wild: wild === true }));
  });
  return bad === undefined
    ? undefined
    : problem(ERROR_CODES.ceiling, `host \`${bad}\` may not be added: the policy forbids it`);
}

function covers(pattern: string, { name, wild }: { readonly name: string; readonly wild: boolean }): boolean {
  const one = compileHostPattern(pattern);
  if (one === undefined || one.host === undefined) return true;
  return one.wild ? name.endsWith(`.${one.host}`) || (wild && name === one.host) : name === one.host && !wild;
}

function setBackend(draft: Draft, update: Extract<Update, { type: 'setSandboxBackend' }>): ChangeProblem | undefined {
  const { backend, destination } = update;
  if (backend === 'app-guard') return problem(ERROR_CODES.ceiling, 'backend `app-guard` is above the ceiling');
  const { host } = draft.chain.session;
  const proved = draft.gateway.hosts.last(host)?.backends ?? [];
  if (backend !== 'auto' && !proved.includes(backend))
    return problem(ERROR_CODES.notOffered, `host \`${host}\` has not proved the backend \`${backend}\``);
  for (const rule of savedAt(draft, destination)) {
    const { sandboxBackend, ...others } = rule.fragment;
    if (sandboxBackend) cut(draft, rule, others, { sandboxBackend });
  }
  save(draft, destination, { sandboxBackend: backend });
  return undefined;
}

function applyRules(draft: Draft, update: RuleUpdate): ChangeProblem | undefined {
  const { type, effect, destination, rules } = update;
  if (type === 'removeRules')
    return takeRules(draft, update, rules)
      ? undefined
      : problem(
          ERROR_CODES.notOffered,
          `no such ${effect} rule is saved for \`${destination}\`; files are edited on their host`,
        );
  if (type === 'replaceRules') takeRules(draft, update);
  if (rules.length > 0) save(draft, destination, { [KEY[effect]]: [...rules] });
  return undefined;
}

function apply(draft: Draft, update: Update): ChangeProblem | undefined {
  const { destination } = update;
  if (destination !== 'session' && draft.chain.ancestors.length > 0)
    return problem(ERROR_CODES.ceiling, 'a child session asks for itself only; ask in its root session');
  switch (update.type) {
    case 'setMode':
      return setModes(draft, update);
    case 'addHosts':
    case 'replaceHosts': {
      const forbidden = forbiddenHost(draft, update.hosts);
      if (forbidden) return forbidden;
      if (update.type === 'replaceHosts') takeHosts(draft, destination);
      if (update.hosts.length > 0) save(draft, destination, { allowedHosts: [...update.hosts] });
      return undefined;
    }
    case 'setSandboxBackend':
      return setBackend(draft, update);
    default:
      return applyRules(draft, update);
  }
}

/** Why a child would get what an ancestor has not; undefined when it would not. */
function beyondAncestors({ gateway, chain }: Draft, rule: StoredRule): ChangeProblem | undefined {
  const above = chain.ancestors.map(({ session }) => gateway.layers.rulesOf(session));
  const [bound] = boundRules([rule], above, gateway.policy.current.allowedHosts);
  if (chain.ancestors.length === 0 || !bound) return undefined;
  const kept = new Set(fragmentText(bound.fragment));
  const lost = fragmentText(rule.fragment).find((line) => !kept.has(line));
  return lost === undefined
    ? undefined
    : problem(ERROR_CODES.ceiling, `${lost} is beyond an ancestor of the session; ask in its root session first`);
}

/** The rules of the session as they would be, laid as a decision lays them: a rule that the engine refuses is refused here. */
function refusedByEngine({ gateway, session, rules }: Draft, ground: Ground): ChangeProblem | undefined {
  const others = ground.rules.filter(({ id }) => !rules.has(id));
  const laid = lay(ground, [...others, ...[...rules.values()].filter(({ state }) => state === 'active')]);
  const refused = gateway.policy.current.layersProblem(session, laid);
  return refused === '' ? undefined : problem(ERROR_CODES.invalidArguments, refused);
}

/**
 * Works out what updates of a session would change, one after the other. Refuses what is above a ceiling, beyond an ancestor,
 * forbidden, unknown to the engine, or would change nothing. Changes nothing itself.
 */
export async function planUpdates(
  gateway: Gateway,
  chain: SessionChain,
  updates: readonly Update[],
  about: PlanFor,
): Promise<Result<Plan, ChangeProblem>> {
  await gateway.layers.refresh();
  const nowMs = gateway.now();
  const live = gateway.layers
    .rules()
    .filter(({ state, expires_ms }) => state === 'active' && (expires_ms ?? nowMs + 1) > nowMs);
  const draft: Draft = {
    ...{ gateway, chain, about, says: [], session: chain.session, changed: new Set<string>() },
    rules: new Map(live.map((rule) => [rule.id, rule])),
  };
  for (const update of updates) {
    const refused = apply(draft, update);
    if (refused) return err(refused);
  }
  const rules = [...draft.changed].flatMap((id) => draft.rules.get(id) ?? []);
  const added = rules.filter(({ state }) => state === 'active');
  const beyond = added.map((rule) => beyondAncestors(draft, rule)).find((one) => one !== undefined);
  if (beyond) return err(beyond);
  if (rules.length > MAX_RULES)
    return err(problem(ERROR_CODES.notOffered, `more than ${MAX_RULES} saved rules would change; take it in parts`));
  if (draft.says.length === 0) return err(problem(ERROR_CODES.notOffered, 'the session has that already'));
  const ground = await lastGround(gateway, chain);
  const refused = refusedByEngine(draft, ground) ?? (added.length > 0 ? gateway.layers.full() : undefined);
  if (refused) return err(refused);
  const changedSession = draft.session === chain.session ? {} : { session: draft.session };
  return ok({ says: draft.says, ...changedSession, rules });
}
