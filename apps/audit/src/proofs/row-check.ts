import type { AuditEntry } from '@countersign/merkle';
import { type Fact, factOf, type Story } from '../query/fact.ts';

/** A row of `audit.entry` with its key row and, when indexed, its query columns. Numbers are the database's text. */
export type StoredRow = {
  readonly log_index: string;
  readonly stream: string;
  readonly stream_seq: string;
  readonly type: string;
  readonly call_id: string | null;
  readonly recorded_ms: string;
  readonly leaf: Buffer;
  readonly entry_id: string | null;
  readonly leaf_hash: Buffer | null;
  readonly fact: Readonly<Record<string, unknown>> | null;
};

const differing = (pairs: readonly (readonly [string, unknown, unknown])[]): string[] =>
  pairs.filter(([, stored, told]) => String(stored ?? '') !== String(told ?? '')).map(([name]) => name);

/** Columns of the row that are not what its leaf says. */
export const wrongColumns = (row: StoredRow, entry: AuditEntry): string[] =>
  differing([
    ['stream', row.stream, entry.stream],
    ['stream_seq', row.stream_seq, entry.stream_seq],
    ['type', row.type, entry.type],
    ['call_id', row.call_id, entry.call],
    ['recorded_ms', row.recorded_ms, entry.recorded_ms],
    ['entry_id', row.entry_id, entry.id],
  ]);

/** Query columns that are not what the leaf, and the stored beginning of its call, say. */
export function wrongFacts(row: StoredRow, entry: AuditEntry, story: Story | undefined): string[] {
  const { fact } = factOf(entry, story);
  const stored = row.fact ?? {};
  return differing((Object.keys(fact) as (keyof Fact)[]).map((name) => [name, stored[name], fact[name]]));
}

const ORIGIN = [
  'received_index',
  'received_ms',
  'principal',
  'agent',
  'session_id',
  'host',
  'tool',
  'action',
  'args',
] as const;

/** What the stored story of a call says wrongly of the moment that this entry is. */
export function wrongStory(entry: AuditEntry, stored: Story): string[] {
  const told = factOf(entry, undefined).story;
  if (!told) return [];
  if (entry.type === 'call.received') return differing(ORIGIN.map((name) => [name, stored[name], told[name]]));
  if (entry.type === 'approval.requested') return differing([['requested_ms', stored.requested_ms, told.requested_ms]]);
  if (entry.type === 'decision') return differing([['effect', stored.effect, told.effect]]);
  if (entry.type !== 'call.closed') return [];
  return differing([
    ['closed_index', stored.closed_index, told.closed_index],
    ['closed_state', stored.closed_state, told.closed_state],
  ]);
}
