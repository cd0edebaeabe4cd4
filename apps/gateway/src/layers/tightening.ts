import type { ApprovalMode, LayerSource, PermissionMode, RuleSource } from '@countersign/policy';

/** From the one that asks most to the one that asks least. */
const MODES: readonly PermissionMode[] = ['strict', 'dev', 'networked', 'yolo'];
const APPROVALS: readonly ApprovalMode[] = ['manual', 'auto', 'full_access'];

const leastOf = <T>(order: readonly T[], values: readonly (T | undefined)[]): T | undefined =>
  order.find((one) => values.includes(one));

/** The strictest of some permission modes; undefined when none is named. */
export const strictestMode = (modes: readonly (PermissionMode | undefined)[]): PermissionMode | undefined =>
  leastOf(MODES, modes);
export const strictestApproval = (modes: readonly (ApprovalMode | undefined)[]): ApprovalMode | undefined =>
  leastOf(APPROVALS, modes);

/**
 * A rule of a file that nobody trusts, without what could loosen another rule. SECURITY: who answers, in which queue, and the
 * name to which a grant would be tied are not the file's to say; a name could be that of a rule of the organisation.
 */
const anonymous = ({ toolName, pattern, reason, approvals }: RuleSource): RuleSource => ({
  toolName,
  ...(pattern === undefined ? {} : { pattern }),
  ...(reason === undefined ? {} : { reason }),
  ...(approvals === undefined ? {} : { approvals }),
});

const TIGHT: Readonly<Record<string, boolean>> = {
  auto_allow_bash_if_sandboxed: false,
  dangerous_command_guard: true,
  block_private_network: true,
  hardened_mode: true,
};

function tightSettings(security: LayerSource['security']): Pick<LayerSource, 'security'> {
  const kept = Object.entries(security ?? {}).filter(([key, value]) => TIGHT[key] === value);
  return kept.length === 0 ? {} : { security: Object.fromEntries(kept) };
}

/** The rules of an untrusted file made harmless; what would widen stays, for the engine to name as ignored. */
export const untrusted = (source: LayerSource): LayerSource => ({
  ...source,
  askRules: (source.askRules ?? []).map(anonymous),
  denyRules: (source.denyRules ?? []).map(anonymous),
});

/** What a file takes away, and nothing else of it. */
export function tighteningOf(source: LayerSource): LayerSource {
  const { mode, approvalMode, askRules = [], denyRules = [] } = source;
  return {
    ...(mode === undefined ? {} : { mode }),
    ...(approvalMode === undefined ? {} : { approvalMode }),
    ...(askRules.length === 0 ? {} : { askRules: askRules.map(anonymous) }),
    ...(denyRules.length === 0 ? {} : { denyRules: denyRules.map(anonymous) }),
    ...tightSettings(source.security),
  };
}

/** False for a file that takes nothing away. */
export const isTightening = (tight: LayerSource): boolean => Object.keys(tight).length > 0;

const unique = (rules: readonly RuleSource[]): RuleSource[] => [
  ...new Map(rules.map((rule) => [JSON.stringify(rule), rule])).values(),
];

/** A layer with what earlier versions of its file took away. */
export function withHeld(layer: LayerSource, held: readonly LayerSource[]): LayerSource {
  if (held.length === 0) return layer;
  const mode = strictestMode([layer.mode, ...held.map((one) => one.mode)]);
  return {
    ...layer,
    ...(mode === undefined ? {} : { mode }),
    askRules: unique([layer, ...held].flatMap(({ askRules }) => askRules ?? [])),
    denyRules: unique([layer, ...held].flatMap(({ denyRules }) => denyRules ?? [])),
    security: Object.assign({}, layer.security, ...held.map(({ security }) => security)),
  };
}
