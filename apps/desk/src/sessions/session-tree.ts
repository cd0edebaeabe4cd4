import type { Call } from '../api/calls.ts';
import type { Session } from '../api/sessions.ts';

/** A session in the tree, with how many of its own calls wait and run. */
export type TreeRow = {
  readonly session: Session;
  readonly depth: number;
  readonly waiting: number;
  readonly running: number;
};

const countBy = (calls: readonly Call[]): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>();
  for (const { sessionId } of calls) counts.set(sessionId, (counts.get(sessionId) ?? 0) + 1);
  return counts;
};

/** Sessions in the order given, each followed by those that it opened. One whose parent is not listed stands alone. */
export function treeOf(
  sessions: readonly Session[],
  waiting: readonly Call[],
  running: readonly Call[],
): readonly TreeRow[] {
  const [waits, runs] = [countBy(waiting), countBy(running)];
  const known = new Set(sessions.map(({ id }) => id));
  const children = new Map<string, Session[]>();
  for (const session of sessions) {
    const parent = session.parent !== undefined && known.has(session.parent) ? session.parent : '';
    children.set(parent, [...(children.get(parent) ?? []), session]);
  }
  const rowsBelow = (parent: string, depth: number): TreeRow[] =>
    (children.get(parent) ?? []).flatMap((session) => [
      { session, depth, waiting: waits.get(session.id) ?? 0, running: runs.get(session.id) ?? 0 },
      ...rowsBelow(session.id, depth + 1),
    ]);
  return rowsBelow('', 0);
}
