import { FaultError } from '@countersign/kernel';
import { AppendRequest, ERROR_CODES } from '@countersign/protocol';
import type pg from 'pg';
import { commitToDocuments } from '../sequencer/adopt-documents.ts';
import type { Sequencer } from '../sequencer/sequencer.ts';

const KIND = 'partition';

export type DropOptions = {
  readonly sequencer: Sequencer;
  /** The sequencer's own connection; used only while nothing of it is under way. */
  readonly writer: pg.ClientBase;
  readonly reader: pg.Pool;
  /** Days that entries are kept. */
  readonly entryDays: number;
  /** Streams and publications that have not taken every entry before an index. */
  readonly behind: (index: number) => readonly string[];
  readonly now: () => number;
};

/** The oldest partition; `keptBecause` is empty when it may be dropped. */
type Oldest = { readonly first: number; readonly until: number; readonly keptBecause: string };
type DropValue = { readonly first: number; readonly until: number; readonly subject: string; readonly state: string };

const OLDEST = `select p.first_index, p.until_index, audit.partition_kept($1) as kept, d.version, d.value->>'state' as state
  from audit.partition p left join audit.document d on d.kind = '${KIND}' and d.key = p.first_index::text
  where p.dropped_ms is null order by p.first_index limit 1`;

const json = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));

/**
 * Drops the oldest partition of entries. INVARIANT: an entry says so before, and again after it; the database itself refuses
 * inside the time that entries are kept, under a hold, with open calls and before the tiles hold the hashes.
 */
export class PartitionDrop {
  readonly #options: DropOptions;

  constructor(options: DropOptions) {
    this.#options = options;
  }

  async oldest(): Promise<Oldest> {
    const row = await this.#read();
    const { first, until } = row;
    const behind = row.kept === '' ? this.#options.behind(until) : [];
    const keptBecause = behind.length > 0 ? `\`${behind.join('`, `')}\` has not taken its entries yet` : row.kept;
    return { first, until, keptBecause };
  }

  /** Drops the oldest partition, which `oldest` found free to go. Rejects when it could not; then it is there as before. */
  async drop(subject: string): Promise<void> {
    const { first, until, version, state } = await this.#read();
    const value: DropValue = { first, until, subject, state: 'begun' };
    if (state !== 'begun') await this.#record('admin.changed', value, version);
    const begun = state === 'begun' ? version : version + 1n;
    await this.#dropBegun(value, begun);
  }

  /** Says that a partition is gone which a process before this one dropped and could not say so of. */
  async resume(): Promise<void> {
    const { rows } = await this.#options.reader.query<{ value: DropValue; version: string }>(
      `select d.value, d.version from audit.document d join audit.partition p on p.first_index::text = d.key
       where d.kind = '${KIND}' and d.value->>'state' = 'begun' and p.dropped_ms is not null`,
    );
    for (const { value, version } of rows) await this.#record('retention.dropped', value, BigInt(version));
  }

  async #dropBegun(value: DropValue, version: bigint): Promise<void> {
    const { sequencer, writer, reader, entryDays, now } = this.#options;
    // What the dropped entries commit to, the entries that stay commit to from now on.
    await commitToDocuments(sequencer, reader, now());
    await sequencer.between(async () => {
      await writer.query('select audit.drop_partition($1)', [entryDays]);
    });
    await this.#record('retention.dropped', value, version);
  }

  async #read() {
    const { rows } = await this.#options.reader.query<{
      first_index: string;
      until_index: string;
      kept: string | null;
      version: string | null;
      state: string | null;
    }>(OLDEST, [this.#options.entryDays]);
    const row = rows[0];
    return {
      first: Number(row?.first_index ?? 0),
      until: Number(row?.until_index ?? 0),
      kept: row ? (row.kept ?? '') : 'there is none',
      version: BigInt(row?.version ?? 0),
      state: row?.state ?? '',
    };
  }

  async #record(type: 'admin.changed' | 'retention.dropped', value: DropValue, version: bigint): Promise<void> {
    const { sequencer, now, entryDays } = this.#options;
    const { first, until, subject } = value;
    const isBegun = type === 'admin.changed';
    const detail = {
      ...(isBegun ? { what: 'retention.begun' } : {}),
      ...{ first, until, subject, scope: `range:${first}-${until - 1}`, reason: `entries are kept ${entryDays} days` },
    };
    const state = isBegun ? 'begun' : 'done';
    const { refusal } = await sequencer.appendOwn(
      AppendRequest.fromPartial({
        entries: [
          {
            ...{ id: `ent_partition_${first}_${state}`, type, stream: 'custody', emittedMs: BigInt(now()) },
            body: json({ detail }),
          },
        ],
        documents: [{ kind: KIND, key: String(first), value: json({ ...value, state }), expectedVersion: version }],
      }),
    );
    if (refusal)
      throw new FaultError(`the record refused \`${type}\`: ${refusal.message}`, { code: ERROR_CODES.auditInvalid });
  }
}
