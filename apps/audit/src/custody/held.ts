import type pg from 'pg';
import { parseScope } from './scope.ts';

/** A hold as its document keeps it. */
export type HoldValue = {
  readonly scope: string;
  readonly reason: string;
  readonly subject: string;
  readonly set_ms: number;
  readonly state: 'set' | 'released';
};

type Holds = {
  sessions: Set<string>;
  agents: string[];
  principals: string[];
  ranges: [number, number][];
  all: boolean;
};

/** Holds that are set, oldest first. */
export async function readHolds(reader: Pick<pg.Pool, 'query'>): Promise<HoldValue[]> {
  const { rows } = await reader.query<{ value: HoldValue }>(
    "select value from audit.document where kind = 'hold' and value->>'state' = 'set' order by (value->>'set_ms')::bigint, key",
  );
  return rows.map(({ value }) => value);
}

function sorted(holds: readonly HoldValue[]): Holds {
  const found: Holds = { sessions: new Set(), agents: [], principals: [], ranges: [], all: false };
  for (const hold of holds) {
    const scope = parseScope(hold.scope);
    // SECURITY: a hold that cannot be read holds everything.
    if (!scope || scope.kind === 'all') found.all = true;
    else if (scope.kind === 'session') found.sessions.add(scope.id);
    else if (scope.kind === 'agent') found.agents.push(scope.id);
    else if (scope.kind === 'principal') found.principals.push(scope.id);
    else if (scope.kind === 'range') found.ranges.push([scope.from, scope.to]);
  }
  return found;
}

const TOUCHED = `select distinct f.session_id from audit.fact f where f.session_id = any($1) and (f.agent = any($2) or f.principal = any($3)
  or exists (select from unnest($4::bigint[], $5::bigint[]) as r(low, high) where f.log_index between r.low and r.high))`;

/** Which of `sessions` a hold keeps. The index must cover every entry of them. */
export async function heldSessions(
  reader: Pick<pg.Pool, 'query'>,
  sessions: readonly string[],
  holds: readonly HoldValue[],
): Promise<Set<string>> {
  const { all, agents, principals, ranges, ...named } = sorted(holds);
  if (all) return new Set(sessions);
  const held = new Set(sessions.filter((session) => named.sessions.has(session)));
  if (agents.length + principals.length + ranges.length === 0) return held;
  const { rows } = await reader.query<{ session_id: string }>(TOUCHED, [
    sessions,
    agents,
    principals,
    ranges.map(([low]) => low),
    ranges.map(([, high]) => high),
  ]);
  for (const row of rows) held.add(row.session_id);
  return held;
}
