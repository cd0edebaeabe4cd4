import { findSuspicious, type HostTarget, isPrivateHost } from '@countersign/patterns';
import type { Facts, Finding, PolicySet } from './types.ts';

/** Judges one host that a call wants to reach. */
export function judgeHost(
  target: HostTarget,
  set: PolicySet,
  facts: Facts,
  tool: string,
  asKind: 'table' | 'profile',
): Finding[] {
  const out: Finding[] = [];
  const { security } = facts;
  const hardened = security.hardened_mode;
  const odd = findSuspicious(target.host);
  if (odd !== undefined)
    out.push({ effect: 'ask', kind: 'unreadable', text: `suspicious character ${odd} in the host` });
  if ((security.block_private_network || hardened) && isPrivateHost(target.host))
    out.push({
      effect: 'deny',
      kind: 'rule',
      text: `host \`${target.host}\` is private and \`block_private_network\` is on`,
    });
  let allowed = false;
  let asked = false;
  for (const { rule, pattern } of set.index.hosts(tool).of(target.host)) {
    if (pattern !== undefined && !pattern.matches(target, rule.effect !== 'allow')) continue;
    if (rule.effect === 'allow') allowed = true;
    else {
      asked = true;
      out.push({
        effect: rule.effect,
        kind: 'rule',
        rule,
        text: `host \`${target.host}\` matches the ${rule.label}`,
        grant: { tool, action: 'network', scopes: [target.host] },
      });
    }
  }
  const forbidden = set.index.forbidden.holds(target, true);
  const listed = !forbidden && set.index.allowed.holds(target, false);
  if (forbidden)
    out.push({ effect: 'deny', kind: 'rule', text: `host \`${target.host}\` is forbidden by the organisation` });
  if (hardened && !listed)
    out.push({
      effect: 'ask',
      kind: 'possible',
      text: `host \`${target.host}\` is not in \`allowedHosts\` and hardened mode is on`,
    });
  const byTable = set.mode === 'networked' && listed;
  if (!allowed && !asked && !byTable && set.mode !== 'yolo')
    out.push({
      effect: 'ask',
      kind: asKind,
      text: `host \`${target.host}\` is not allowed by the table (${set.mode} network)`,
      grant: { tool, action: 'network', scopes: [target.host] },
    });
  return out;
}
