import type { Call } from '../api/calls.ts';
import type { InboxSearch } from './inbox-search.ts';

/** Ways to group the inbox. */
export const GROUPINGS = ['none', 'alike', 'host', 'agent', 'session', 'tool', 'queue'] as const;
export type Grouping = (typeof GROUPINGS)[number];
/** Orders of the inbox. */
export const SORTS = ['age', 'due', 'new'] as const;
export type Sort = (typeof SORTS)[number];

/** A line of the list: the head of a group or one call. */
export type Row =
  | { readonly kind: 'group'; readonly name: string; readonly calls: readonly Call[] }
  | { readonly kind: 'call'; readonly call: Call };

/** A call is due when it has less than this left. */
export const DUE_MS = 10 * 60_000;

export const groupingOf = (search: InboxSearch): Grouping =>
  GROUPINGS.find((grouping) => grouping === search.group) ?? 'none';
export const sortOf = (search: InboxSearch): Sort => SORTS.find((sort) => sort === search.sort) ?? 'age';

/** The program of a command as its masked summary shows it: its first word after assignments. */
function programOf({ tool, summary }: Call): string {
  if (tool !== 'bash') return '';
  const words = summary.slice(tool.length).trim().split(/\s+/);
  return words.find((word) => !/^\w+=/.test(word)) ?? '';
}

/** Calls with the same name are alike: same tool, agent, host and, for commands, program. */
export const alikeName = (call: Call): string =>
  [call.tool, programOf(call), call.agent, call.host].filter(Boolean).join(' · ');

const NAME_OF: Readonly<Record<Grouping, (call: Call) => string>> = {
  none: () => '',
  alike: alikeName,
  host: ({ host }) => host,
  agent: ({ agent }) => agent,
  session: ({ sessionId }) => sessionId,
  tool: ({ tool }) => tool,
  queue: ({ queue }) => queue ?? '',
};

const ORDER: Readonly<Record<Sort, (a: Call, b: Call) => number>> = {
  age: (a, b) => a.receivedMs - b.receivedMs,
  due: (a, b) => a.deadlineMs - b.deadlineMs,
  new: (a, b) => b.receivedMs - a.receivedMs,
};

const texts = new WeakMap<Call, string>();

function searchText(call: Call): string {
  const known = texts.get(call);
  if (known !== undefined) return known;
  const text = [call.summary, call.agent, call.host, call.sessionId, call.tool, call.queue ?? '', call.principal ?? '']
    .join('\n')
    .toLowerCase();
  texts.set(call, text);
  return text;
}

/** The calls that the filter lets through, in its order. Every word of the search must occur somewhere in a call. */
export function filterCalls(calls: readonly Call[], search: InboxSearch, nowMs: number): readonly Call[] {
  const words = (search.q ?? '').toLowerCase().split(/\s+/).filter(Boolean);
  const passes = (call: Call): boolean =>
    (search.host === undefined || call.host === search.host) &&
    (search.agent === undefined || call.agent === search.agent) &&
    (search.tool === undefined || call.tool === search.tool) &&
    (search.queue === undefined || call.queue === search.queue) &&
    (search.due !== true || call.deadlineMs - nowMs < DUE_MS) &&
    words.every((word) => searchText(call).includes(word));
  return calls.filter(passes).sort(ORDER[sortOf(search)]);
}

/** Lines of the list. Groups stand in the order of their first call. */
export function rowsOf(calls: readonly Call[], grouping: Grouping): readonly Row[] {
  if (grouping === 'none') return calls.map((call) => ({ kind: 'call', call }));
  const groups = new Map<string, Call[]>();
  for (const call of calls) {
    const name = NAME_OF[grouping](call);
    const found = groups.get(name);
    if (found) found.push(call);
    else groups.set(name, [call]);
  }
  return [...groups].flatMap(([name, members]): Row[] => [
    { kind: 'group', name, calls: members },
    ...members.map((call): Row => ({ kind: 'call', call })),
  ]);
}

/** Values of one field among the waiting calls, for a filter's choices. */
export const choicesOf = (calls: readonly Call[], field: 'host' | 'agent' | 'tool' | 'queue'): string[] =>
  [...new Set(calls.map((call) => call[field] ?? ''))].filter(Boolean).sort();

/** A list and where in it the open call was last. */
export type Place = { readonly order: readonly Call[]; readonly index: number };

/** The call that follows an answered one, also when the answered one has left the list already; else the one before it. */
export function nextOf({ order, index }: Place, answered: string): Call | undefined {
  const found = order.findIndex(({ callId }) => callId === answered);
  const next = found < 0 ? index : found + 1;
  return order[next] ?? order[(found < 0 ? index : found) - 1];
}
