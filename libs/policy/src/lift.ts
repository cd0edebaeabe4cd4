import type { AskKind, Facts, Finding, Grant, PolicySet } from './types.ts';

const LIFTABLE: ReadonlySet<AskKind> = new Set(['table', 'risky']);

/** Whether approval mode `full_access` holds under the ceilings. */
export const hasFullAccess = (set: PolicySet, facts: Facts): boolean =>
  facts.approvalMode === 'full_access' && set.ceilings.fullAccess !== false;

/** Whether unattended mode holds: only where the organisation allows it, never when hardened. */
export const isEternal = (set: PolicySet, facts: Facts): boolean =>
  facts.eternal && set.ceilings.eternal === true && !facts.security.hardened_mode;

function grantCovers(finding: Finding, grants: readonly Grant[]): boolean {
  const wanted = finding.grant;
  if (wanted === undefined || (finding.kind !== 'table' && finding.kind !== 'rule')) return false;
  return grants.some(
    (g) =>
      g.tool === wanted.tool &&
      g.action === wanted.action &&
      wanted.scopes.includes(g.scope) &&
      (finding.kind === 'table'
        ? g.rule === undefined
        : g.rule !== undefined && g.rule === (finding.rule?.source.id ?? finding.rule?.label)),
  );
}

/** The reason why an ask needs nobody, or undefined if it stays. */
export function liftedBy(finding: Finding, set: PolicySet, facts: Facts): string | undefined {
  if (finding.effect === 'deny') return undefined;
  if (LIFTABLE.has(finding.kind)) {
    if (set.mode === 'yolo') return 'mode yolo';
    if (hasFullAccess(set, facts)) return 'approval mode full_access';
  }
  if (grantCovers(finding, facts.grants)) return 'a session grant';
  return finding.kind === 'table' && isEternal(set, facts) ? 'unattended mode' : undefined;
}
