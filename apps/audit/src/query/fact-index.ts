import { createHash } from 'node:crypto';
import { type AuditEntry, parseEntry, rootOfLeaves, TILE_WIDTH } from '@countersign/merkle';
import type pg from 'pg';
import { type Fact, factOf, type Story } from './fact.ts';

const BATCH = 1_000;
const DAY_MS = 86_400_000;
const NAME = 'facts';
/** A question waits for the index at most this long; then its answer says how far the index is. */
const CATCH_UP_MS = 10_000;
/** "Denied, then allowed" looks back this far. */
const LIFTED_MS = 600_000;

const sha256 = (data: Uint8Array): Uint8Array => new Uint8Array(createHash('sha256').update(data).digest());

type LeafRow = { log_index: string; leaf: Buffer; leaf_hash: Buffer };

const INSERT_FACTS = `insert into audit.fact (log_index, recorded_ms, offset_ms, type, call_id, session_id, agent, principal, host, tool, action, effect,
  decided_by, approver, policy, grant_id, subject, state, what, waited_ms, self_approved, differs)
  select * from jsonb_to_recordset($1::jsonb) as f(log_index bigint, recorded_ms bigint, offset_ms bigint, type text, call_id text, session_id text,
  agent text, principal text, host text, tool text, action text, effect text, decided_by text, approver text, policy text, grant_id text,
  subject text, state text, what text, waited_ms bigint, self_approved boolean, differs boolean)`;
const UPSERT_STORIES = `insert into audit.story select * from jsonb_to_recordset($1::jsonb) as s(call_id text, received_index bigint, received_ms bigint,
  principal text, agent text, session_id text, host text, tool text, action text, args text, requested_ms bigint, effect text, sent_ms bigint,
  started_ms bigint, closed_index bigint, closed_state text)
  on conflict (call_id) do update set requested_ms = excluded.requested_ms, effect = excluded.effect, sent_ms = excluded.sent_ms,
  started_ms = excluded.started_ms, closed_index = excluded.closed_index, closed_state = excluded.closed_state`;
const MARK_LIFTED = `update audit.fact f set denied_index = d.log_index from (
    select a.log_index as allowed, (select x.log_index from audit.fact x where x.type = 'decision' and x.effect = 'deny' and x.principal = a.principal
      and x.tool = a.tool and x.action = a.action and x.log_index < a.log_index and x.recorded_ms >= a.recorded_ms - ${LIFTED_MS}
      order by x.log_index desc limit 1) as log_index
    from audit.fact a where a.log_index between $1 and $2 and a.type = 'decision' and a.effect = 'allow') d
  where f.log_index = d.allowed and d.log_index is not null`;
const COUNT_DAYS = `insert into audit.day_count as d select * from jsonb_to_recordset($1::jsonb) as c(day date, tenant text, type text, entries bigint, first_index bigint, last_index bigint)
  on conflict (day, tenant, type) do update set entries = d.entries + excluded.entries, last_index = excluded.last_index`;
const COUNT_POLICIES = `insert into audit.policy_count as p select * from jsonb_to_recordset($1::jsonb) as c(policy text, tool text, action text, effect text, decided_by text, calls bigint)
  on conflict (policy, tool, action, effect, decided_by) do update set calls = p.calls + excluded.calls`;
const SEE_HOSTS = `insert into audit.host_seen as h select * from jsonb_to_recordset($1::jsonb) as c(host text, first_index bigint, last_index bigint, last_ms bigint, entries bigint)
  on conflict (host) do update set last_index = excluded.last_index, last_ms = excluded.last_ms, entries = h.entries + excluded.entries`;
const INSERT_NODES =
  'insert into audit.node select * from unnest($1::smallint[], $2::bigint[], $3::bytea[]) on conflict do nothing';

/** Adds `row` to the group of its key. */
function group<T>(into: Map<string, T>, key: string, first: T, add: (known: T) => void): void {
  const known = into.get(key);
  if (known) add(known);
  else into.set(key, first);
}

function sums(entries: readonly AuditEntry[], facts: readonly Fact[]) {
  const days = new Map<
    string,
    { day: string; tenant: string; type: string; entries: number; first_index: number; last_index: number }
  >();
  const hosts = new Map<
    string,
    { host: string; first_index: number; last_index: number; last_ms: number; entries: number }
  >();
  const policies = new Map<
    string,
    { policy: string; tool: string; action: string; effect: string; decided_by: string; calls: number }
  >();
  for (const [at, fact] of facts.entries()) {
    const { log_index: index, recorded_ms: ms, type, host } = fact;
    const day = new Date(Math.floor(ms / DAY_MS) * DAY_MS).toISOString().slice(0, 10);
    const tenant = (entries[at]?.tenant ?? '').replaceAll('\0', '\ufffd');
    group(
      days,
      JSON.stringify([day, tenant, type]),
      { day, tenant, type, entries: 1, first_index: index, last_index: index },
      (known) => {
        known.entries += 1;
        known.last_index = index;
      },
    );
    if (host !== null)
      group(hosts, host, { host, first_index: index, last_index: index, last_ms: ms, entries: 1 }, (known) => {
        Object.assign(known, { last_index: index, last_ms: ms, entries: known.entries + 1 });
      });
    if (type !== 'decision' || fact.policy === null) continue;
    const facts5 = {
      policy: fact.policy,
      tool: fact.tool ?? '',
      action: fact.action ?? '',
      effect: fact.effect ?? '',
      decided_by: fact.decided_by ?? '',
    };
    group(policies, JSON.stringify(facts5), { ...facts5, calls: 1 }, (known) => {
      known.calls += 1;
    });
  }
  return { days: [...days.values()], hosts: [...hosts.values()], policies: [...policies.values()] };
}

/**
 * Reads the log behind the sequencer and keeps query columns and tree nodes. INVARIANT: it has a connection of its own and
 * nothing of an append waits for it; what it holds can be made again from the leaves.
 */
export class FactIndex {
  readonly #pool: pg.Pool;
  readonly #onError: (error: unknown) => void;
  #next = 0;
  #wanted = 0;
  #running: Promise<void> | undefined;
  #stopped = false;
  /** Why the last step failed; empty after one that did not. */
  #problem = '';

  /** `pool` may write the tables of the index; `onError` is told once of a failure that repeats. */
  constructor(pool: pg.Pool, onError: (error: unknown) => void) {
    this.#pool = pool;
    this.#onError = onError;
  }

  /** Entries that are indexed. */
  get size(): number {
    return this.#next;
  }

  /** Entries that are recorded and not indexed. */
  get lag(): number {
    return Math.max(0, this.#wanted - this.#next);
  }

  /** Tells how many entries there are; the index follows by itself. */
  follow(size: number): void {
    this.#wanted = Math.max(this.#wanted, size);
    if (this.#running || this.#stopped || this.#next >= this.#wanted) return;
    this.#running = this.#run()
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        this.#running = undefined;
      });
  }

  /** Resolves when `size` entries are indexed, or after ten seconds with what there is. */
  async upTo(size: number): Promise<number> {
    const deadline = Date.now() + CATCH_UP_MS;
    while (this.#next < size && Date.now() < deadline && !this.#stopped) {
      this.follow(size);
      const step = this.#running ?? Promise.resolve();
      await Promise.race([step, new Promise((resolve) => setTimeout(resolve, 200))]);
    }
    return this.#next;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  #fail(error: unknown): void {
    const problem = error instanceof Error ? error.message : String(error);
    if (problem !== this.#problem) this.#onError(error);
    this.#problem = problem;
  }

  async #run(): Promise<void> {
    const client = await this.#pool.connect();
    try {
      while (!this.#stopped && this.#next < this.#wanted) await this.#step(client);
    } finally {
      client.release();
    }
  }

  /** One batch in one transaction; the locked position keeps two processes from counting an entry twice. */
  async #step(client: pg.PoolClient): Promise<void> {
    await client.query('begin');
    try {
      await client.query("insert into audit.follower values ('facts', 0) on conflict do nothing");
      const { rows } = await client.query<{ next_index: string }>(
        'select greatest(next_index, (select kept_from from audit.head)) as next_index from audit.follower where name = $1 for update',
        [NAME],
      );
      const from = Number(rows[0]?.next_index ?? 0);
      const to = await this.#index(client, from);
      await client.query('update audit.follower set next_index = $2 where name = $1', [NAME, to]);
      await client.query('commit');
      this.#next = to;
      this.#problem = '';
      if (to === from) this.#wanted = Math.min(this.#wanted, to);
    } catch (error) {
      await client.query('rollback').catch(() => undefined);
      throw error;
    }
  }

  async #index(client: pg.PoolClient, from: number): Promise<number> {
    const { rows } = await client.query<LeafRow>(
      'select log_index, leaf, leaf_hash from audit.entry join audit.entry_key using (log_index) where log_index >= $1 and log_index < $2 order by log_index',
      [from, from + BATCH],
    );
    const entries = rows.flatMap((row) => {
      const parsed = parseEntry(row.leaf);
      // A damaged leaf is found by the check of the database; the index goes on without it.
      return parsed.ok && parsed.value.index === Number(row.log_index) ? [parsed.value] : [];
    });
    const stories = await this.#stories(client, entries);
    const changed = new Map<string, Story>();
    const facts = entries.map((entry) => {
      const { fact, story } = factOf(entry, stories.get(entry.call ?? ''));
      if (story) {
        stories.set(story.call_id, story);
        changed.set(story.call_id, story);
      }
      return fact;
    });
    if (facts.length > 0) await this.#write(client, entries, facts, [...changed.values()]);
    const to = from + rows.length;
    await this.#writeNodes(client, from, to, rows);
    return to;
  }

  async #stories(client: pg.PoolClient, entries: readonly AuditEntry[]): Promise<Map<string, Story>> {
    const calls = [...new Set(entries.flatMap((entry) => (entry.call === undefined ? [] : [entry.call])))];
    const { rows } = await client.query<Story>('select * from audit.story where call_id = any($1)', [calls]);
    const number = (value: unknown) => (value === null ? null : Number(value));
    return new Map(
      rows.map((row) => [
        row.call_id,
        {
          ...row,
          received_index: Number(row.received_index),
          received_ms: Number(row.received_ms),
          requested_ms: number(row.requested_ms),
          sent_ms: number(row.sent_ms),
          started_ms: number(row.started_ms),
          closed_index: number(row.closed_index),
        },
      ]),
    );
  }

  async #write(
    client: pg.PoolClient,
    entries: readonly AuditEntry[],
    facts: readonly Fact[],
    stories: readonly Story[],
  ) {
    const { days, hosts, policies } = sums(entries, facts);
    await client.query(INSERT_FACTS, [JSON.stringify(facts)]);
    await client.query(UPSERT_STORIES, [JSON.stringify(stories)]);
    await client.query(COUNT_DAYS, [JSON.stringify(days)]);
    await client.query(SEE_HOSTS, [JSON.stringify(hosts)]);
    if (policies.length === 0) return;
    await client.query(COUNT_POLICIES, [JSON.stringify(policies)]);
    await client.query(MARK_LIFTED, [facts[0]?.log_index, facts.at(-1)?.log_index]);
  }

  /** Roots of the complete tiles that end in this batch: level 1 from leaf hashes, each higher one from the level below. */
  async #writeNodes(client: pg.PoolClient, from: number, to: number, rows: readonly LeafRow[]): Promise<void> {
    let hashes: Uint8Array[] = rows.map((row) => new Uint8Array(row.leaf_hash));
    let [low, high] = [from, to];
    for (let level = 1; Math.floor(high / TILE_WIDTH) > Math.floor(low / TILE_WIDTH); level += 1) {
      const start = Math.floor(low / TILE_WIDTH) * TILE_WIDTH;
      const before = start < low ? await readHashes(client, { level: level - 1, from: start, to: low }) : [];
      const all = [...before, ...hashes];
      const made: Uint8Array[] = [];
      for (let at = 0; at + TILE_WIDTH <= all.length; at += TILE_WIDTH)
        made.push(rootOfLeaves(sha256, all.slice(at, at + TILE_WIDTH)));
      const first = start / TILE_WIDTH;
      await client.query(INSERT_NODES, [
        made.map(() => level),
        made.map((_, at) => first + at),
        made.map((hash) => Buffer.from(hash)),
      ]);
      hashes = made;
      [low, high] = [first, first + made.length];
    }
  }
}

/** Hashes of a tile level from the database: of entries, or of complete tiles. Shorter than asked when some are not there. */
export async function readHashes(
  client: Pick<pg.PoolClient, 'query'>,
  { level, from, to }: { level: number; from: number; to: number },
): Promise<Uint8Array[]> {
  const { rows } =
    level === 0
      ? await client.query<{ hash: Buffer }>(
          'select leaf_hash as hash from audit.entry_key where log_index >= $1 and log_index < $2 order by log_index',
          [from, to],
        )
      : await client.query<{ hash: Buffer }>(
          'select hash from audit.node where level = $3 and pos >= $1 and pos < $2 order by pos',
          [from, to, level],
        );
  return rows.map((row) => new Uint8Array(row.hash));
}
