import type { Finding, PolicySet, Review } from './types.ts';

const smallest = (names: readonly (string | undefined)[]): string | undefined =>
  names.filter((n) => n !== undefined).sort()[0];

/**
 * Who must answer an ask. The strictest statement of all rules that raised it holds: the most approvals, and a human
 * reviewer before any other. SECURITY: where a rule or its queue demands people (approvals, a quorum, passkeys), a model is
 * not the reviewer whatever the rule says. When rules name different queues the first by name is taken, with the approvals of all.
 */
export function reviewOf(open: readonly Finding[], set: PolicySet): { readonly review?: Review } {
  const sources = open.flatMap((f) => (f.rule === undefined ? [] : [f.rule.source]));
  const queue = smallest(sources.map((s) => s.queue));
  const people = sources.flatMap((s) => [
    s.approvals ?? 0,
    s.queue !== undefined && set.queues !== undefined && Object.hasOwn(set.queues, s.queue)
      ? (set.queues[s.queue]?.approvals ?? 0)
      : 0,
  ]);
  const approvals = Math.max(0, ...people);
  const signed = sources.some(({ queue: name = '' }) => {
    const demands = set.queues !== undefined && Object.hasOwn(set.queues, name) ? set.queues[name] : undefined;
    return demands?.passkey === true || (demands?.quorum ?? []).length > 0;
  });
  const named = sources.map((s) => s.reviewer);
  const others = named.filter((r) => r !== 'guardian');
  const plain = open.every((f) => f.kind === 'table' || f.kind === 'risky' || f.rule?.source.reviewer === 'guardian');
  const reviewer =
    smallest(others) ?? (plain && approvals === 0 && !signed && named.includes('guardian') ? 'guardian' : undefined);
  const review: Review = {
    ...(reviewer === undefined ? {} : { reviewer }),
    ...(queue === undefined ? {} : { queue }),
    ...(approvals === 0 ? {} : { approvals }),
  };
  return Object.keys(review).length === 0 ? {} : { review };
}
