import { carriedAddress, findSuspicious, type HostTarget, isPrivateHost } from '@countersign/patterns';
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
  // The same host by another spelling is the same host for what tightens.
  const carried = carriedAddress(target.host);
  const tight = carried === undefined ? [target] : [target, { ...target, host: carried }];
  const rules = new Set(tight.flatMap(({ host }) => set.index.hosts(tool).of(host)));
  for (const { rule, pattern } of rules) {
    const spellings = rule.effect === 'allow' ? [target] : tight;
    if (pattern !== undefined && !spellings.some((one) => pattern.matches(one, rule.effect !== 'allow'))) continue;
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
  const forbidden = tight.some((one) => set.index.forbidden.holds(one, true));
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
