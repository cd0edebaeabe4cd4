import { FaultError } from '@countersign/kernel';
import { AppendRequest, ERROR_CODES } from '@countersign/protocol';
import type pg from 'pg';
import { documentDigest } from './document-digest.ts';
import type { Sequencer } from './sequencer.ts';

/** Documents that one entry commits to. */
const PAGE = 100;
const DONE = 'ent_documents_adopted_done';

type Row = { kind: string; key: string; version: string; value: unknown };

async function isCommitting(reader: Pick<pg.Pool, 'query'>): Promise<boolean> {
  const { rows } = await reader.query<{ leaf: Buffer | null; done: boolean }>(
    `select (select leaf from audit.entry where log_index = 0) as leaf, exists (select from audit.entry_key where entry_id = '${DONE}') as done`,
  );
  const { leaf, done } = rows[0] ?? { leaf: null, done: false };
  if (done || !leaf) return true;
  const first = JSON.parse(leaf.toString()) as { detail?: { documents?: unknown } };
  return Array.isArray(first.detail?.documents);
}

/** Commits to the documents of a log from before entries did so, once. Each page is an entry with an id of its own. */
export async function adoptDocuments(
  sequencer: Sequencer,
  reader: Pick<pg.Pool, 'query'>,
  nowMs: number,
): Promise<void> {
  if (await isCommitting(reader)) return;
  const append = async (id: string, documents: readonly object[]) => {
    const detail = { what: 'documents.adopted', documents };
    const body = new TextEncoder().encode(JSON.stringify({ detail }));
    const entry = { id, type: 'admin.changed', stream: 'audit', emittedMs: BigInt(nowMs), body };
    const { refusal } = await sequencer.appendOwn(AppendRequest.fromPartial({ entries: [entry] }));
    if (refusal) throw new FaultError(`documents: ${refusal.message}`, { code: ERROR_CODES.auditInvalid });
  };
  for (let kind = '', key = '', page = 0; ; page += 1) {
    const { rows } = await reader.query<Row>(
      `select kind, key, version, value from audit.document where (kind, key) > ($1, $2) order by kind, key limit ${PAGE}`,
      [kind, key],
    );
    const last = rows.at(-1);
    if (!last) break;
    [kind, key] = [last.kind, last.key];
    const documents = rows.map((row) => ({
      ...{ kind: row.kind, key: row.key, version: Number(row.version) },
      sha256: documentDigest(row.value),
    }));
    await append(`ent_documents_adopted_${nowMs}_${page}`, documents);
  }
  await append(DONE, []);
}
