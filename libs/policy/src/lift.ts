import type { AskKind, Decision, Facts, Finding, Grant, Lift, PolicySet } from './types.ts';

const LIFTABLE: ReadonlySet<AskKind> = new Set(['table', 'risky']);

/** Whether approval mode `full_access` holds under the ceilings. */
export const hasFullAccess = (set: PolicySet, facts: Facts): boolean =>
  facts.approvalMode === 'full_access' && set.ceilings.fullAccess !== false;

/** Whether unattended mode holds: only where the organisation allows it, never when hardened. */
export const isEternal = (set: PolicySet, facts: Facts): boolean =>
  facts.eternal && set.ceilings.eternal === true && !facts.security.hardened_mode;

/** The rule that a grant must name to cover this ask; undefined for an ask of the mode table. */
const grantRule = (finding: Finding): string | undefined => finding.rule?.source.id ?? finding.rule?.label;

const isGrantable = ({ kind, rule }: Finding): boolean => kind === 'table' || (kind === 'rule' && rule !== undefined);

function coveringGrant(finding: Finding, grants: readonly Grant[]): Grant | undefined {
  const wanted = finding.grant;
  if (wanted === undefined || !isGrantable(finding)) return undefined;
  return grants.find(
    (g) =>
      g.tool === wanted.tool &&
      g.action === wanted.action &&
      wanted.scopes.includes(g.scope) &&
      (finding.kind === 'table' ? g.rule === undefined : g.rule !== undefined && g.rule === grantRule(finding)),
  );
}

/** The grants that would cover these asks, each as wide as its kind allows; undefined when one of them cannot be covered. */
export function grantOffer(open: readonly Finding[]): readonly Grant[] | undefined {
  const offer = new Map<string, Grant>();
  for (const finding of open) {
    const scope = finding.grant?.scopes.at(-1);
    if (finding.grant === undefined || scope === undefined || !isGrantable(finding)) return undefined;
    const { tool, action } = finding.grant;
    const rule = finding.kind === 'rule' ? grantRule(finding) : undefined;
    const grant: Grant = { tool, action, scope, ...(rule === undefined ? {} : { rule }) };
    offer.set(JSON.stringify(grant), grant);
  }
  return offer.size === 0 ? undefined : [...offer.values()];
}

const literalCommand = (text: string): string => text.replace(/[\\*?]/g, '\\$&');

/** Literal text of an allow rule for one open part; undefined when no text spells it. */
function ruleFor(finding: Finding, path: unknown): { toolName: string; pattern: string } | undefined {
  const scope = finding.grant?.scopes[0];
  if (finding.kind !== 'table' || finding.grant === undefined || scope === undefined) return undefined;
  const { tool, action } = finding.grant;
  if (action === 'network') return { toolName: tool, pattern: scope };
  const at = scope.indexOf(' :: ');
  if (action === 'execute')
    return at < 0 ? undefined : { toolName: tool, pattern: literalCommand(scope.slice(at + 4)) };
  return typeof path === 'string' && !/[*?]/.test(path) ? { toolName: tool, pattern: path } : undefined;
}

/** Literal allow rules for the open asks; undefined when one of them has none. */
export function ruleOffer(open: readonly Finding[], path: unknown): Decision['ruleOffer'] {
  const offer = new Map<string, { toolName: string; pattern: string }>();
  for (const finding of open) {
    const rule = ruleFor(finding, path);
    if (rule === undefined) return undefined;
    offer.set(JSON.stringify(rule), rule);
  }
  return offer.size === 0 ? undefined : [...offer.values()];
}

export interface Lifted {
  readonly by: Lift;
  readonly text: string;
  readonly grant?: Grant;
}

/** What answers an ask before anybody is asked, or undefined if it stays. */
export function liftedBy(finding: Finding, set: PolicySet, facts: Facts): Lifted | undefined {
  if (finding.effect === 'deny') return undefined;
  if (LIFTABLE.has(finding.kind)) {
    if (set.mode === 'yolo') return { by: 'yolo', text: 'mode yolo' };
    if (hasFullAccess(set, facts)) return { by: 'full_access', text: 'approval mode full_access' };
  }
  const grant = coveringGrant(finding, facts.grants);
  if (grant !== undefined) return { by: 'grant', text: 'a session grant', grant };
  return finding.kind === 'table' && isEternal(set, facts) ? { by: 'eternal', text: 'unattended mode' } : undefined;
}
