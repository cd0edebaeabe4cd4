import { RuleIndex } from './rule-index.ts';
import { canonicalTool } from './tools.ts';
import {
  type Ceilings,
  LAYER_NAMES,
  type LayerName,
  type LayerSource,
  MODES,
  type PermissionMode,
  type PolicySet,
  type Rule,
  type RuleLists,
  type SecuritySettings,
} from './types.ts';

export type Layers = Readonly<Partial<Record<LayerName, LayerSource>>>;

const rank = (mode: PermissionMode): number => MODES.indexOf(mode);
const stricter = (a: PermissionMode, b: PermissionMode): PermissionMode => (rank(a) <= rank(b) ? a : b);

const LISTS = [
  ['denyRules', 'deny'],
  ['askRules', 'ask'],
  ['allowRules', 'allow'],
] as const;

function rulesOf(lists: RuleLists, layer: LayerName): Rule[] {
  return LISTS.flatMap(([key, effect]) =>
    (lists[key] ?? []).map((source) => {
      const tool = canonicalTool(source.toolName);
      const written = typeof source.toolName === 'string' ? source.toolName : tool;
      const label = `${layer} ${effect} rule \`${written}${source.pattern === undefined ? '' : ` ${source.pattern}`}\``;
      return { effect, layer, tool, pattern: source.pattern, source, label };
    }),
  );
}

/** The workspace layers whose present content an operator trusted. Never taken from the content itself. */
export type Trusted = readonly ('project' | 'local')[];

const fromWorkspace = (name: LayerName, trusted: Trusted): boolean =>
  (name === 'project' || name === 'local') && !trusted.includes(name);

function effectiveMode(layers: Layers, trusted: Trusted, ignored: string[]): PermissionMode {
  let mode: PermissionMode = layers.managed?.defaults?.mode ?? layers.managed?.mode ?? 'strict';
  let cap: PermissionMode = layers.managed?.ceilings?.mode ?? 'yolo';
  for (const name of LAYER_NAMES) {
    const layer = layers[name];
    if (layer?.mode === undefined || name === 'managed') continue;
    if (name !== 'project' && name !== 'local') mode = layer.mode;
    else {
      if (trusted.includes(name)) mode = layer.mode;
      else if (rank(layer.mode) > rank(mode)) ignored.push(`${name} mode \`${layer.mode}\``);
      cap = stricter(cap, layer.mode);
    }
  }
  if (rank(mode) > rank(cap)) ignored.push(`mode \`${mode}\` is above the cap \`${cap}\``);
  return stricter(mode, cap);
}

/** What a workspace file may say about a setting without being trusted. */
const TIGHTENS: Readonly<Record<string, boolean>> = {
  auto_allow_bash_if_sandboxed: false,
  dangerous_command_guard: true,
  block_private_network: true,
  hardened_mode: true,
};

/** Later layers override; an untrusted one only tightens, and hardened mode is a one-way lock. */
function mergedSecurity(layers: Layers, trusted: Trusted, ignored: string[]): Partial<SecuritySettings> {
  let settings: Partial<SecuritySettings> = { ...layers.managed?.defaults?.security };
  const tight: Record<string, boolean> = settings.hardened_mode ? { hardened_mode: true } : {};
  for (const name of LAYER_NAMES) {
    const stated = layers[name]?.security ?? {};
    if (!fromWorkspace(name, trusted)) settings = { ...settings, ...stated };
    if (stated.hardened_mode) tight.hardened_mode = true;
    if (!fromWorkspace(name, trusted)) continue;
    for (const [key, value] of Object.entries(stated)) {
      if (TIGHTENS[key] === value) tight[key] = value;
      else ignored.push(`${name} setting \`${key}\``);
    }
  }
  return { ...settings, ...tight };
}

/** Lays the layers over each other. Workspace layers only tighten; ceilings hold whatever a layer says. */
export function mergeLayers(layers: Layers, trusted: Trusted = []): PolicySet {
  const ignored: string[] = [];
  const rules: Rule[] = [];
  const hosts: string[] = [];
  const managed = layers.managed ?? {};
  const ceilings: Ceilings = managed.ceilings ?? {};
  rules.push(...rulesOf(managed.lockedRules ?? {}, 'managed'), ...rulesOf(managed.defaults ?? {}, 'managed'));
  hosts.push(...(managed.defaults?.allowedHosts ?? []));
  for (const name of LAYER_NAMES) {
    const layer = layers[name];
    if (layer === undefined) continue;
    for (const rule of rulesOf(layer, name)) {
      if (rule.effect === 'allow' && fromWorkspace(name, trusted)) ignored.push(rule.label);
      else rules.push(rule);
    }
    if (fromWorkspace(name, trusted))
      for (const host of layer.allowedHosts ?? []) ignored.push(`${name} host \`${host}\``);
    else hosts.push(...(layer.allowedHosts ?? []));
  }
  const honoured = LAYER_NAMES.filter((name) => !fromWorkspace(name, trusted)).reverse();
  const chosen = honoured.map((name) => layers[name]?.sandboxBackend).find((b) => b !== undefined);
  const mode = effectiveMode(layers, trusted, ignored);
  const stated = chosen ?? managed.defaults?.sandboxBackend ?? 'auto';
  // Where the organisation has the app-guard, the backend follows the mode.
  const backend = stated === 'auto' && mode === 'yolo' && ceilings.appGuard === true ? 'app-guard' : stated;
  const barred = backend === 'app-guard' && ceilings.appGuard === false;
  if (barred) ignored.push('backend `app-guard` is above the ceiling');
  const fallbacks = honoured.map((name) => layers[name]?.allowBackendFallback);
  const fallback = fallbacks.find((stated) => stated !== undefined) ?? managed.defaults?.allowBackendFallback ?? false;
  if (fallback && ceilings.backendFallback === false) ignored.push('a stand-in for the backend is above the ceiling');
  rules.sort((a, b) => (a.label < b.label ? -1 : a.label > b.label ? 1 : 0));
  const allowedHosts = [...new Set(hosts)].sort();
  const forbiddenHosts = [...(managed.forbiddenHosts ?? [])].sort();
  return {
    rules,
    index: new RuleIndex(rules, allowedHosts, forbiddenHosts),
    mode,
    allowedHosts,
    forbiddenHosts,
    ceilings,
    queues: managed.queues ?? {},
    harmlessNames: managed.harmlessNames ?? managed.defaults?.harmlessNames ?? [],
    backend: barred ? 'auto' : backend,
    backendFallback: fallback && ceilings.backendFallback !== false,
    security: mergedSecurity(layers, trusted, ignored),
    ignoredWidenings: ignored.sort(),
  };
}
