import { boundedBy, type Session, type SessionChain } from '../record/sessions.ts';
import type { Fragment, StoredRule } from './stored-rule.ts';

/** True when a fragment can let something through that was asked or denied before. */
export const widenedBy = ({ allowRules = [], allowedHosts = [], sandboxBackend }: Fragment): boolean =>
  allowRules.length > 0 || allowedHosts.length > 0 || sandboxBackend !== undefined;

/** Why a session would have a mode that an ancestor has not; undefined when it would not. */
export function beyondChain(session: Session, { ancestors }: SessionChain): string | undefined {
  const bounded = boundedBy(
    session,
    ancestors.map((one) => one.session),
  );
  if (bounded.permission_mode !== session.permission_mode)
    return `permission mode \`${session.permission_mode}\` is beyond an ancestor, which has \`${bounded.permission_mode}\``;
  if (bounded.approval_mode !== session.approval_mode)
    return `approval mode \`${session.approval_mode}\` is beyond an ancestor, which has \`${bounded.approval_mode}\``;
  return undefined;
}

type Bound = (fragment: Fragment) => Fragment;

/** What a fragment of a child's session still says where every ancestor has the same hosts and rules, or the organisation has. */
function boundTo(ancestors: readonly (readonly StoredRule[])[], managedHosts: readonly string[]): Bound {
  const hostsOf = (rules: readonly StoredRule[]) => rules.flatMap(({ fragment }) => fragment.allowedHosts ?? []);
  const allowsOf = (rules: readonly StoredRule[]) =>
    new Set(
      rules
        .filter(({ cwd, files }) => cwd === undefined && files.length === 0)
        .flatMap(({ fragment }) => fragment.allowRules ?? [])
        .map(({ toolName, pattern }) => JSON.stringify([toolName, pattern])),
    );
  const hosts = ancestors.map((rules) => new Set([...managedHosts, ...hostsOf(rules)]));
  const allows = ancestors.map(allowsOf);
  return ({ allowedHosts = [], allowRules = [], sandboxBackend: _, ...tightening }) => ({
    ...tightening,
    allowedHosts: allowedHosts.filter((host) => hosts.every((one) => one.has(host))),
    allowRules: allowRules.filter(({ toolName, pattern }) =>
      allows.every((one) => one.has(JSON.stringify([toolName, pattern]))),
    ),
  });
}

/**
 * The rules of a session, where those that were saved for it alone widen no more than what holds for every ancestor now.
 * INVARIANT: a child never has a host or an allow rule by a permission update that an ancestor has not.
 */
export function boundRules(
  rules: readonly StoredRule[],
  ancestors: readonly (readonly StoredRule[])[],
  managedHosts: readonly string[],
): readonly StoredRule[] {
  if (ancestors.length === 0 || !rules.some(({ layer }) => layer === 'session')) return rules;
  const bound = boundTo(ancestors, managedHosts);
  return rules.map((rule) => (rule.layer === 'session' ? { ...rule, fragment: bound(rule.fragment) } : rule));
}
