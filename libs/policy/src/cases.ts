import { decide } from './decide.ts';
import { factsOf, type SessionFacts } from './facts.ts';
import type { Layers, Trusted } from './layers.ts';
import { loadPolicySet } from './load.ts';
import type { Call, Effect, LayerSource } from './types.ts';

/** One line of a case file. */
export interface PolicyCase extends SessionFacts {
  readonly id: string;
  readonly note?: string;
  readonly permissions?: LayerSource;
  readonly layers?: Layers;
  readonly trusted?: Trusted;
  readonly call: Call;
  readonly expect?: Effect;
  readonly expectAny?: readonly Effect[];
}

export interface CaseAnswer {
  readonly id: string;
  readonly effect: Effect;
  readonly reasons: readonly string[];
  readonly ok: boolean;
}

function caseLayers(c: PolicyCase): Layers {
  const user = c.layers?.user;
  const stated = c.permissions ?? {};
  const standing = c.security?.permission_mode;
  const base = standing === undefined || stated.mode !== undefined ? stated : { ...stated, mode: standing };
  if (user === undefined) return { ...c.layers, user: base };
  const both = <T>(a: readonly T[] | undefined, b: readonly T[] | undefined): T[] => [...(a ?? []), ...(b ?? [])];
  return {
    ...c.layers,
    user: {
      ...base,
      ...user,
      allowRules: both(base.allowRules, user.allowRules),
      askRules: both(base.askRules, user.askRules),
      denyRules: both(base.denyRules, user.denyRules),
      allowedHosts: both(base.allowedHosts, user.allowedHosts),
    },
  };
}

/** Evaluates one case; an invalid policy set answers `error`. */
export function evaluateCase(c: PolicyCase): CaseAnswer {
  const accepted = c.expectAny ?? (c.expect === undefined ? undefined : [c.expect]);
  const answer = (effect: Effect, reasons: readonly string[]): CaseAnswer => ({
    id: String(c.id),
    effect,
    reasons,
    ok: accepted === undefined || accepted.includes(effect),
  });
  try {
    const set = loadPolicySet(caseLayers(c), c.trusted);
    if (!set.ok)
      return answer(
        'error',
        set.error.map((e) => `${e.layer} ${e.rule}: ${e.message}`),
      );
    const decision = decide(set.value, c.call, factsOf(c));
    return answer(decision.effect, decision.reasons);
  } catch (cause) {
    return answer('error', [`the case cannot be read: ${cause instanceof Error ? cause.message : 'unknown fault'}`]);
  }
}

/** Evaluates the lines of a case file. A line that is not a case fails. */
export function runCases(jsonl: string): { readonly answers: readonly CaseAnswer[]; readonly ok: boolean } {
  const answers: CaseAnswer[] = [];
  jsonl.split('\n').forEach((line, i) => {
    if (line.trim() === '') return;
    try {
      answers.push(evaluateCase(JSON.parse(line) as PolicyCase));
    } catch {
      answers.push({ id: `line ${i + 1}`, effect: 'error', reasons: [`line ${i + 1} is not JSON`], ok: false });
    }
  });
  return { answers, ok: answers.every((a) => a.ok) };
}
