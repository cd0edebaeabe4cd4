import { decide } from './decide.ts';
import { describeQueue } from './governance/describe-queue.ts';
import { queueOf } from './governance/explain-answer.ts';
import type { Call, Decision, Facts, PolicySet } from './types.ts';

export interface Explanation {
  readonly decision: Decision;
  readonly mode: string;
  readonly tableRow: string;
  readonly layers: readonly { readonly layer: string; readonly rules: readonly string[] }[];
  readonly ignoredWidenings: readonly string[];
  /** Who would have to answer; empty unless a person is asked. */
  readonly governance: readonly string[];
}

const ROWS: Readonly<Record<string, string>> = {
  strict: 'read allow, write ask, execute ask, network ask',
  dev: 'read allow, write ask, execute allow if sandboxed, network ask',
  networked: 'read allow, write ask, execute allow if sandboxed, network allow if the host is listed',
  yolo: 'read allow, write allow, execute allow, network allow',
};

function governanceOf(set: PolicySet, decision: Decision): string[] {
  if (decision.effect !== 'ask') return [];
  const { name, queue } = queueOf(set, decision);
  return describeQueue(name, queue, decision.review?.approvals);
}

/** A decision with everything that went into it. */
export function explain(set: PolicySet, call: Call, facts: Facts): Explanation {
  const names = [...new Set(set.rules.map((r) => r.layer))];
  const decision = decide(set, call, facts);
  return {
    decision,
    governance: governanceOf(set, decision),
    mode: set.mode,
    tableRow: ROWS[set.mode] ?? '',
    layers: names.map((layer) => ({ layer, rules: set.rules.filter((r) => r.layer === layer).map((r) => r.label) })),
    ignoredWidenings: set.ignoredWidenings,
  };
}
