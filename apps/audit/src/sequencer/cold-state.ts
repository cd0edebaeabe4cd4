import { CallRecord } from '@countersign/protocol';
import type pg from 'pg';
import type { GrantMemory } from '../grants/grant-memory.ts';
import type { CallMemory, DecisionEntry } from './call-memory.ts';

/** First receipt of an entry that is already in the log. */
export type KnownEntry = {
  readonly index: number;
  readonly leafHash: Uint8Array;
  readonly draftHash: Uint8Array;
  readonly recordedMs: number;
};

/** What a batch needs and memory may not hold. */
export type ColdKeys = {
  readonly calls: readonly string[];
  readonly entries: readonly string[];
  readonly streams: readonly string[];
  readonly documents: readonly string[];
};
/** What the sequencer needs to know of a document. */
export type KnownDocument = {
  readonly version: bigint;
  /** Parent of a session; empty for a root. */
  readonly parent?: string;
  readonly grant?: GrantMemory;
};
/** What a batch reads and moves forward. */
export type Known<T> = {
  readonly get: (key: string) => T | undefined;
  readonly has: (key: string) => boolean;
  readonly set: (key: string, value: T) => unknown;
};
export type ColdState = {
  readonly calls: Known<CallMemory>;
  readonly entries: Known<KnownEntry>;
  readonly streams: Known<{ seq: number; leaf: string }>;
  /** By `kind/key`. */
  readonly documents: Known<KnownDocument>;
};

const LOAD = `
select 'call' as what, call_id as key, null::bigint as a, null::bigint as b, record as x, null::bytea as y, decision_entry as d from audit.call where call_id = any($1)
union all select 'entry', entry_id, log_index, recorded_ms, leaf_hash, draft_hash, null from audit.entry_key where entry_id = any($2)
union all select 'stream', s.name, e.stream_seq, null, e.hash, null, null from unnest($3::text[]) as s(name)
  cross join lateral (select * from (
    (select stream_seq, sha256('\\x00'::bytea || leaf) as hash from audit.entry where stream = s.name order by stream_seq desc limit 1)
    union all select stream_seq, leaf_hash from audit.stream_end where stream = s.name) l order by stream_seq desc limit 1) e
union all select 'document', kind || '/' || key, version, null, null, null,
  case kind when 'grant' then value when 'session' then jsonb_build_object('parent', value->'parent') end from audit.document where kind || '/' || key = any($4)`;

type Row = {
  what: string;
  key: string;
  a: string | null;
  b: string | null;
  x: Buffer | null;
  y: Buffer | null;
  d: DecisionEntry | GrantMemory | { readonly parent: unknown } | null;
};

/** What a stored document tells; `facts` are its value, or the part of it that is read. */
export function knownDocument(name: string, version: bigint, facts: unknown): KnownDocument {
  if (name.startsWith('grant/')) return { version, grant: facts as GrantMemory };
  if (!name.startsWith('session/')) return { version };
  const { parent } = facts as { parent?: unknown };
  return { version, parent: typeof parent === 'string' ? parent : '' };
}

/** Reads `keys` into `found` in one round trip; none when there is nothing to read. */
export async function loadCold(client: pg.ClientBase, keys: ColdKeys, found: ColdState): Promise<void> {
  const values = [keys.calls, keys.entries, keys.streams, keys.documents];
  if (values.every((list) => list.length === 0)) return;
  const { rows } = await client.query<Row>({ name: 'load_cold', text: LOAD, values });
  for (const row of rows) {
    const x = row.x ?? Buffer.alloc(0);
    if (row.what === 'call') {
      const decision = (row.d as DecisionEntry | null) ?? undefined;
      found.calls.set(row.key, { record: CallRecord.decode(x), decision });
    } else if (row.what === 'entry') {
      found.entries.set(row.key, {
        index: Number(row.a),
        leafHash: x,
        draftHash: row.y ?? Buffer.alloc(0),
        recordedMs: Number(row.b),
      });
    } else if (row.what === 'stream') found.streams.set(row.key, { seq: Number(row.a), leaf: x.toString('hex') });
    else found.documents.set(row.key, knownDocument(row.key, BigInt(row.a ?? 0), row.d));
  }
}

/** One call as the database holds it. */
export async function loadCall(client: pg.ClientBase, callId: string): Promise<CallMemory | undefined> {
  const found = { calls: new Map(), entries: new Map(), streams: new Map(), documents: new Map() };
  await loadCold(client, { calls: [callId], entries: [], streams: [], documents: [] }, found);
  return found.calls.get(callId);
}
