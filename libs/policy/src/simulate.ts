import { decide } from './decide.ts';
import { factsOf, type SessionFacts } from './facts.ts';
import { canonicalTool } from './tools.ts';
import type { Call, Decision, Effect, PolicySet } from './types.ts';

/** One line of a recording: a call, what the session was, what was decided, and what a person answered. */
export interface RecordedCall extends SessionFacts {
  readonly id?: string;
  readonly agent?: string;
  readonly call: Call;
  /** What the set of the time decided; absent means that the comparison set decides anew. */
  readonly effect?: Effect;
  /** What a person answered, if one was asked. */
  readonly human?: 'approved' | 'denied';
}

export interface SimulatedExample {
  readonly id: string;
  readonly tool: string;
  readonly agent: string;
  readonly subject: string;
  readonly from: Effect;
  readonly to: Effect;
  readonly reasons: readonly string[];
}

export interface SimulatedGroup {
  readonly name: string;
  readonly count: number;
  /** At most five. */
  readonly examples: readonly SimulatedExample[];
}

/** All calls that go from one answer to another. */
export interface SimulatedChange {
  readonly from: Effect;
  readonly to: Effect;
  readonly count: number;
  readonly byRule: readonly SimulatedGroup[];
  readonly byTool: readonly SimulatedGroup[];
  readonly byAgent: readonly SimulatedGroup[];
}

export interface SimulationReport {
  readonly total: number;
  readonly unchanged: number;
  /** Newly allowed first, then what is otherwise loosened, then what is tightened. */
  readonly changes: readonly SimulatedChange[];
  /** Calls that a person denied and the new set would allow; all of them are counted, at most 100 are shown. */
  readonly deniedByHumanNowAllowed: { readonly count: number; readonly examples: readonly SimulatedExample[] };
}

const EXAMPLES = 5;
const FLAGGED = 100;
const STRICTNESS: Readonly<Record<Effect, number>> = { allow: 0, ask: 1, deny: 2, error: 3 };

const subjectOf = (call: Call): string => {
  const args: Readonly<Record<string, unknown>> = call.args ?? {};
  const subject = args.command ?? args.path ?? args.url ?? args.query ?? '';
  return String(typeof subject === 'string' ? subject : JSON.stringify(subject)).slice(0, 200);
};

interface Changed extends SimulatedExample {
  readonly rules: readonly string[];
}

function grouped(changed: readonly Changed[], namesOf: (c: Changed) => readonly string[]): SimulatedGroup[] {
  const groups = new Map<string, { count: number; examples: SimulatedExample[] }>();
  for (const c of changed)
    for (const name of namesOf(c)) {
      const group = groups.get(name) ?? { count: 0, examples: [] };
      group.count++;
      const { rules: _, ...example } = c;
      if (group.examples.length < EXAMPLES) group.examples.push(example);
      groups.set(name, group);
    }
  return [...groups]
    .map(([name, group]) => ({ name, ...group }))
    .sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1));
}

const rank = ({ from, to }: { from: Effect; to: Effect }): number =>
  to === 'allow' ? -100 + STRICTNESS[from] * -1 : STRICTNESS[to] - STRICTNESS[from];

/** The rules that a change is counted under: those that now decide, else those that no longer do. */
const rulesBehind = (before: Decision | undefined, after: Decision): readonly string[] => {
  if (after.decidingRules.length > 0) return after.decidingRules;
  const gone = before?.decidingRules ?? [];
  return gone.length > 0 ? gone.map((rule) => `no longer: ${rule}`) : ['mode table and allow rules'];
};

/** One set for all calls, or the set of each call. */
export type SetFor<Line> = PolicySet | ((line: Line) => PolicySet);

const setFor = <Line>(set: SetFor<Line>, line: Line): PolicySet => (typeof set === 'function' ? set(line) : set);

/**
 * Replays recorded calls against a new set. A call whose line holds no `effect` is compared with `old`; without `old` it is
 * compared with the answer of an empty set. A line that holds a call nobody could judge counts as `error`.
 */
export function simulate<Line extends RecordedCall>(
  set: SetFor<Line>,
  recorded: readonly Line[],
  old?: SetFor<Line>,
): SimulationReport {
  const changed: Changed[] = [];
  const flagged: SimulatedExample[] = [];
  let deniedNowAllowed = 0;
  recorded.forEach((line, i) => {
    const facts = factsOf(line);
    const after = decide(setFor(set, line), line.call, facts);
    const before = old === undefined ? undefined : decide(setFor(old, line), line.call, facts);
    const from = line.effect ?? before?.effect ?? 'ask';
    const example: SimulatedExample = {
      id: line.id ?? `line ${i + 1}`,
      tool: canonicalTool(line.call?.tool),
      agent: line.agent ?? 'unknown',
      subject: subjectOf(line.call),
      from,
      to: after.effect,
      reasons: after.reasons.slice(0, 4),
    };
    if (line.human === 'denied' && after.effect === 'allow') {
      deniedNowAllowed++;
      if (flagged.length < FLAGGED) flagged.push(example);
    }
    if (from !== after.effect) changed.push({ ...example, rules: rulesBehind(before, after) });
  });
  const kinds = [...new Set(changed.map((c) => `${c.from} ${c.to}`))];
  const changes = kinds.map((kind): SimulatedChange => {
    const [from, to] = kind.split(' ') as [Effect, Effect];
    const of = changed.filter((c) => c.from === from && c.to === to);
    return {
      from,
      to,
      count: of.length,
      byRule: grouped(of, (c) => c.rules),
      byTool: grouped(of, (c) => [c.tool]),
      byAgent: grouped(of, (c) => [c.agent]),
    };
  });
  return {
    total: recorded.length,
    unchanged: recorded.length - changed.length,
    changes: changes.sort((a, b) => rank(a) - rank(b) || (a.from < b.from ? -1 : 1)),
    deniedByHumanNowAllowed: { count: deniedNowAllowed, examples: flagged },
  };
}
