import { createHash } from 'node:crypto';
import {
  type AuditEntry,
  decodeTile,
  equalBytes,
  leafHash,
  type NoteVerifier,
  type Problem,
  parseEntry,
  rootOf,
  rootOfLeaves,
  TILE_WIDTH,
  TileBuilder,
  type TileBytes,
  verifySignedNote,
  Walk,
} from '@countersign/merkle';
import type pg from 'pg';
import type { Story } from '../query/fact.ts';
import { readHashes } from '../query/fact-index.ts';
import { ProjectionCheck } from './check-projections.ts';
import { type StoredRow, wrongColumns, wrongFacts, wrongStory } from './row-check.ts';

const PAGE = 500;
const sha256 = (data: Uint8Array): Uint8Array => new Uint8Array(createHash('sha256').update(data).digest());

const ROWS = `select e.log_index, e.stream, e.stream_seq, e.type, e.call_id, e.recorded_ms, e.leaf, k.entry_id, k.leaf_hash, to_jsonb(f) as fact
  from audit.entry e left join audit.entry_key k using (log_index) left join audit.fact f using (log_index)
  where e.log_index >= $1 order by e.log_index limit ${PAGE}`;

type Head = { first: number; next: number; indexed: number; stack: Uint8Array[]; recordedMs: number };
type Told = { readonly entry: AuditEntry; readonly row: StoredRow; readonly leafHash: string };

/** What was found so far. */
export type DatabaseReport = {
  readonly problems: readonly Problem[];
  readonly entries: number;
  readonly moreProblems: number;
};

/** Compares the database with the tree, in one snapshot. */
class DatabaseCheck {
  readonly #client: pg.PoolClient;
  readonly #head: Head;
  readonly #walk = new Walk(sha256);
  readonly #tiles = new TileBuilder(sha256);
  readonly #checkpoints: Map<number, Uint8Array | undefined>;
  readonly #projections: ProjectionCheck;
  #reported = 0;

  constructor(client: pg.PoolClient, head: Head, checkpoints: Map<number, Uint8Array | undefined>) {
    this.#client = client;
    this.#head = head;
    this.#checkpoints = checkpoints;
    this.#projections = new ProjectionCheck(client, (problem) => this.#walk.report(problem));
  }

  /** Problems since the last call. */
  report(): DatabaseReport {
    const problems = this.#walk.problems.slice(this.#reported);
    this.#reported += problems.length;
    return { problems, entries: this.#walk.size, moreProblems: this.#walk.uncounted };
  }

  get size(): number {
    return this.#walk.size;
  }

  /** Entries that retention dropped: their hashes are checked against the tree alone. */
  async dropped(hashes: readonly Uint8Array[]): Promise<void> {
    const nodes: ReturnType<typeof nodeOf>[] = [];
    for (const leaf of hashes) {
      this.#walk.skip(leaf);
      nodes.push(...this.#tiles.push(leaf).map(nodeOf));
      this.#checkCheckpoint();
    }
    await this.#checkNodes(nodes);
  }

  async page(rows: readonly StoredRow[]): Promise<void> {
    const told: Told[] = [];
    const nodes: { level: number; pos: number; hash: Uint8Array }[] = [];
    for (const row of rows) {
      if (Number(row.log_index) !== this.#walk.size) {
        const message = `row \`${row.log_index}\` stands where entry ${this.#walk.size} should`;
        this.#walk.report({ index: this.#walk.size, code: 'index', message });
      }
      const parsed = parseEntry(row.leaf);
      const leaf = leafHash(sha256, row.leaf);
      if (parsed.ok) told.push({ entry: parsed.value, row, leafHash: Buffer.from(leaf).toString('hex') });
      if (!row.leaf_hash) this.#tell(this.#walk.size, 'key_missing', 'entry has no key row');
      this.#walk.take(row.leaf, leaf, row.leaf_hash ?? undefined);
      nodes.push(...this.#tiles.push(leaf).map(nodeOf));
      this.#checkCheckpoint();
    }
    await this.#checkNodes(nodes);
    await this.#checkColumns(told);
    await this.#projections.page(told);
  }

  #tell(index: number | null, code: string, message: string): void {
    this.#walk.report({ index, code, message });
  }

  #checkCheckpoint(): void {
    const { size } = this.#walk;
    if (!this.#checkpoints.has(size)) return;
    const root = this.#checkpoints.get(size);
    this.#checkpoints.delete(size);
    if (!root) this.#tell(size - 1, 'checkpoint', `stored checkpoint of size ${size} is not signed by the log`);
    else if (!equalBytes(root, this.#walk.root()))
      this.#tell(size - 1, 'checkpoint', `entries do not give the stored checkpoint of size ${size}`);
  }

  async #checkNodes(nodes: readonly { level: number; pos: number; hash: Uint8Array }[]): Promise<void> {
    if (nodes.length === 0) return;
    const { rows } = await this.#client.query<{ level: number; pos: string; hash: Buffer | null }>(
      'select w.level, w.pos, n.hash from unnest($1::smallint[], $2::bigint[]) as w(level, pos) left join audit.node n using (level, pos)',
      [nodes.map(({ level }) => level), nodes.map(({ pos }) => pos)],
    );
    const stored = new Map(rows.map((row) => [`${row.level}/${row.pos}`, row.hash]));
    for (const { level, pos, hash } of nodes) {
      const first = pos * 256 ** level;
      const found = stored.get(`${level}/${pos}`);
      if (found ? !equalBytes(found, hash) : first + 256 ** level <= this.#head.indexed)
        this.#tell(first, 'node', `tree node ${level}/${pos} is not what the entries give`);
    }
  }

  async #checkColumns(told: readonly Told[]): Promise<void> {
    const calls = [...new Set(told.flatMap(({ entry }) => (entry.call === undefined ? [] : [entry.call])))];
    const stories = await this.#client.query<Story>('select * from audit.story where call_id = any($1)', [calls]);
    const states = await this.#client.query<{ call_id: string; state: string }>(
      'select call_id, state from audit.call where call_id = any($1)',
      [calls],
    );
    const storyOf = new Map(stories.rows.map((row) => [row.call_id, row]));
    const stateOf = new Map(states.rows.map((row) => [row.call_id, row.state]));
    for (const { entry, row } of told) {
      const columns = wrongColumns(row, entry);
      if (columns.length > 0)
        this.#tell(entry.index, 'column', `columns are not what the leaf says: ${columns.join(', ')}`);
      if (entry.index < this.#head.indexed) this.#checkFacts(row, entry, storyOf.get(entry.call ?? ''));
      const ended = entry.type === 'call.closed' ? entry.detail?.state : undefined;
      if (typeof ended === 'string' && stateOf.get(entry.call ?? '') !== ended)
        this.#tell(entry.index, 'call_state', `call is \`${stateOf.get(entry.call ?? '') ?? 'missing'}\` in its table`);
    }
  }

  #checkFacts(row: StoredRow, entry: AuditEntry, story: Story | undefined): void {
    const facts = row.fact ? wrongFacts(row, entry, story) : ['all'];
    if (facts.length > 0)
      this.#tell(entry.index, 'fact', `query columns are not what the leaf says: ${facts.join(', ')}`);
    const told = story ? wrongStory(entry, story) : [];
    if (told.length > 0)
      this.#tell(entry.index, 'story', `the call's row is not what the leaf says: ${told.join(', ')}`);
  }

  async end(): Promise<void> {
    await this.#projections.end(this.#walk.size);
    this.#walk.checkDropped();
    const { next, stack, recordedMs } = this.#head;
    const { size } = this.#walk;
    if (next !== size) this.#tell(Math.min(next, size), 'size', `head says ${next} entries, found ${size}`);
    else if (!equalBytes(rootOf(sha256, { size: next, stack }), this.#walk.root()))
      this.#tell(null, 'head', 'hashes of the head are not what the entries give');
    if (recordedMs < this.#walk.recordedMs) this.#tell(null, 'head', 'time of the head is before its last entry');
    for (const beyond of this.#checkpoints.keys())
      if (beyond > size) this.#tell(size, 'checkpoint', `a stored checkpoint covers ${beyond} entries, found ${size}`);
  }
}

function nodeOf({ tile, bytes }: TileBytes): { level: number; pos: number; hash: Uint8Array } {
  const hashes = decodeTile(bytes, tile.width) ?? [];
  return { level: tile.level + 1, pos: tile.index, hash: rootOfLeaves(sha256, hashes) };
}

async function readHead(client: pg.PoolClient): Promise<Head> {
  const { rows } = await client.query<{
    kept_from: string;
    next_index: string;
    stack: Buffer[];
    recorded_ms: string;
    indexed: string | null;
  }>(
    "select kept_from, next_index, stack, recorded_ms, (select next_index from audit.follower where name = 'facts') as indexed from audit.head",
  );
  const row = rows[0];
  return {
    first: Number(row?.kept_from ?? 0),
    next: Number(row?.next_index ?? 0),
    indexed: Number(row?.indexed ?? 0),
    stack: (row?.stack ?? []).map((hash) => new Uint8Array(hash)),
    recordedMs: Number(row?.recorded_ms ?? 0),
  };
}

async function readCheckpoints(
  client: pg.PoolClient,
  verifier: NoteVerifier,
): Promise<Map<number, Uint8Array | undefined>> {
  const { rows } = await client.query<{ size: string; note: string }>('select size, note from audit.checkpoint');
  return new Map(
    rows.map(({ size, note }) => {
      const read = verifySignedNote(note, verifier);
      return [Number(size), read.ok && read.value.size === Number(size) ? read.value.root : undefined];
    }),
  );
}

/**
 * Reads the whole database in one snapshot and reports page by page what is not as the tree, the leaves and the stored
 * checkpoints say. Only reads.
 */
export async function* checkDatabase(pool: pg.Pool, verifier: NoteVerifier): AsyncGenerator<DatabaseReport> {
  const client = await pool.connect();
  try {
    await client.query('begin isolation level repeatable read read only');
    const head = await readHead(client);
    const check = new DatabaseCheck(client, head, await readCheckpoints(client, verifier));
    for (let from = 0; from < head.first; from += TILE_WIDTH) {
      await check.dropped(await readHashes(client, { level: 0, from, to: Math.min(head.first, from + TILE_WIDTH) }));
      yield check.report();
    }
    for (let from = head.first; ; ) {
      const { rows } = await client.query<StoredRow>(ROWS, [from]);
      if (rows.length === 0) break;
      await check.page(rows);
      from = Number(rows.at(-1)?.log_index) + 1;
      yield check.report();
    }
    await check.end();
    yield check.report();
  } finally {
    await client.query('rollback').catch(() => undefined);
    client.release();
  }
}
