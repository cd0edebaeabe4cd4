import { FaultError } from '@countersign/kernel';
import { AppendRequest, ERROR_CODES } from '@countersign/protocol';
import type pg from 'pg';
import { documentDigest } from './document-digest.ts';
import type { Sequencer } from './sequencer.ts';

/** Documents that one entry commits to. */
const PAGE = 50;
/** Pages after which one that has to be read again ends the attempt. */
const MAX_PAGES = 100_000;
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
  await commitToDocuments(sequencer, reader, nowMs);
  await append(sequencer, { id: DONE, nowMs, documents: [] });
}

type Page = { readonly id: string; readonly nowMs: number; readonly documents: readonly Committed[] };
type Committed = { readonly kind: string; readonly key: string; readonly version: number; readonly sha256: string };

/** Appends a page of commitments; false when one of its documents has changed since it was read. */
async function append(sequencer: Sequencer, { id, nowMs, documents }: Page): Promise<boolean> {
  const detail = { what: 'documents.adopted', documents };
  const body = new TextEncoder().encode(JSON.stringify({ detail }));
  const entry = { id, type: 'admin.changed', stream: 'audit', emittedMs: BigInt(nowMs), body };
  const expected = documents.map(({ kind, key, version }) => ({ kind, key, version: BigInt(version) }));
  const { refusal } = await sequencer.appendOwn(AppendRequest.fromPartial({ entries: [entry], expected }));
  if (refusal?.code.startsWith('countersign.audit.stale_')) return false;
  if (refusal) throw new FaultError(`documents: ${refusal.message}`, { code: ERROR_CODES.auditInvalid });
  return true;
}

async function readPage(reader: Pick<pg.Pool, 'query'>, kind: string, key: string): Promise<Committed[]> {
  const { rows } = await reader.query<Row>(
    `select kind, key, version, value from audit.document where (kind, key) > ($1, $2) order by kind, key limit ${PAGE}`,
    [kind, key],
  );
  return rows.map((row) => ({
    ...{ kind: row.kind, key: row.key, version: Number(row.version) },
    sha256: documentDigest(row.value),
  }));
}

/**
 * Commits to every document as it is now, page by page; one that changes meanwhile is read again, so that the newest commitment
 * is always of the present version. `nowMs` is a part of the entries' ids.
 */
export async function commitToDocuments(
  sequencer: Sequencer,
  reader: Pick<pg.Pool, 'query'>,
  nowMs: number,
): Promise<void> {
  for (let kind = '', key = '', page = 0; ; page += 1) {
    const documents = await readPage(reader, kind, key);
    const last = documents.at(-1);
    if (!last) break;
    if (await append(sequencer, { id: `ent_documents_adopted_${nowMs}_${page}`, nowMs, documents }))
      ({ kind, key } = last);
    else if (page > MAX_PAGES) throw new FaultError('documents change too fast', { code: ERROR_CODES.auditBusy });
  }
}
