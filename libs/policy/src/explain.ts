import { decide } from './decide.ts';
import type { Call, Decision, Facts, PolicySet } from './types.ts';

export interface Explanation {
  readonly decision: Decision;
  readonly mode: string;
  readonly tableRow: string;
  readonly layers: readonly { readonly layer: string; readonly rules: readonly string[] }[];
  readonly ignoredWidenings: readonly string[];
}

const ROWS: Readonly<Record<string, string>> = {
  strict: 'read allow, write ask, execute ask, network ask',
  dev: 'read allow, write ask, execute allow if sandboxed, network ask',
  networked: 'read allow, write ask, execute allow if sandboxed, network allow if the host is listed',
  yolo: 'read allow, write allow, execute allow, network allow',
};

/** A decision with everything that went into it. */
export function explain(set: PolicySet, call: Call, facts: Facts): Explanation {
  const names = [...new Set(set.rules.map((r) => r.layer))];
  return {
    decision: decide(set, call, facts),
    mode: set.mode,
    tableRow: ROWS[set.mode] ?? '',
    layers: names.map((layer) => ({ layer, rules: set.rules.filter((r) => r.layer === layer).map((r) => r.label) })),
    ignoredWidenings: set.ignoredWidenings,
  };
}
