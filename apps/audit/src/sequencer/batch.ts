import type { TreeHead } from '@countersign/merkle';
import { CallRecord } from '@countersign/protocol';
import type pg from 'pg';
import type { FreezeChange } from '../freeze/freeze-state.ts';
import type { CallMemory } from './call-memory.ts';

/** An entry as it is written. */
export type EntryRow = {
  readonly id: string;
  readonly index: number;
  readonly stream: string;
  readonly seq: number;
  readonly type: string;
  readonly callId: string | null;
  readonly recordedMs: number;
  readonly leaf: Uint8Array;
  readonly leafHash: Uint8Array;
  readonly draftHash: Uint8Array;
};

/** A document as it is after the batch; `base` is its version before. */
export type DocumentRow = {
  readonly kind: string;
  readonly key: string;
  readonly base: bigint;
  readonly version: bigint;
  readonly value: Uint8Array;
};

/** Ciphertexts of a call under the key `keyId`; a result is never under another key than its call. */
export type PayloadRow = {
  readonly callId: string;
  readonly payload: Uint8Array;
  readonly result: Uint8Array;
  readonly keyId: string;
};

/** A freeze change that was accepted, and the epoch after it. */
export type FreezeRow = { readonly change: FreezeChange; readonly epoch: bigint };

/** Everything of one commit. */
export type Batch = {
  readonly epoch: bigint;
  readonly first: number;
  readonly head: TreeHead;
  readonly recordedMs: number;
  readonly entries: readonly EntryRow[];
  readonly calls: readonly CallMemory[];
  readonly payloads: readonly PayloadRow[];
  readonly documents: readonly DocumentRow[];
  readonly freezeEpoch: bigint;
  readonly freezes: readonly FreezeRow[];
};

/** A value that PostgreSQL gets as bytes, without a copy. */
const bytes = (value: Uint8Array): Buffer => Buffer.from(value.buffer, value.byteOffset, value.byteLength);

/** Parts put one after the other, and where each ends. */
function pack(parts: readonly Uint8Array[]): { blob: Buffer; ends: number[] } {
  let end = 0;
  const ends = parts.map((part) => {
    end += part.length;
    return end;
  });
  return { blob: Buffer.concat(parts), ends };
}

function describeFreeze({ change, epoch }: FreezeRow): object {
  if (change.kind !== 'confirm') return { ...change, epoch: String(epoch) };
  return { ...change, epoch: String(change.epoch) };
}

/** What few batches hold: changed documents and freezes. */
function describeOthers(batch: Batch): string | null {
  if (batch.documents.length === 0 && batch.freezes.length === 0) return null;
  const documents = batch.documents.map((row) => ({
    kind: row.kind,
    key: row.key,
    base: String(row.base),
    version: String(row.version),
    value: JSON.parse(new TextDecoder().decode(row.value)) as unknown,
  }));
  return JSON.stringify({ documents, freezes: batch.freezes.map(describeFreeze) });
}

function entryValues(entries: readonly EntryRow[]): unknown[] {
  const leaves = pack(entries.map((row) => row.leaf));
  return [
    entries.map((row) => row.id),
    entries.map((row) => row.stream),
    entries.map((row) => row.seq),
    entries.map((row) => row.type),
    entries.map((row) => row.callId ?? ''),
    leaves.blob,
    leaves.ends,
    Buffer.concat(entries.map((row) => row.leafHash)),
    Buffer.concat(entries.map((row) => row.draftHash)),
  ];
}

function callValues(calls: readonly CallMemory[]): unknown[] {
  const records = pack(calls.map(({ record }) => CallRecord.encode(record).finish()));
  return [
    calls.map(({ record }) => record.callId),
    calls.map(({ record }) => record.agent),
    calls.map(({ record }) => record.sessionId),
    calls.map(({ record }) => record.state),
    calls.map(({ record }) => String(record.receivedMs)),
    calls.map(({ decision }) => (decision ? JSON.stringify(decision) : '')),
    records.blob,
    records.ends,
  ];
}

const PLACES = Array.from({ length: 24 }, (_, at) => `$${at + 1}`).join(', ');

/** Writes a batch in one round trip and one commit. Rejects when the fence or a row count is not as expected. */
export async function commitBatch(client: pg.Client, batch: Batch): Promise<void> {
  const fence = {
    epoch: String(batch.epoch),
    first: batch.first,
    recorded_ms: batch.recordedMs,
    freeze_epoch: String(batch.freezeEpoch),
  };
  await client.query({
    name: 'append_batch',
    text: `select audit.append_batch(${PLACES})`,
    values: [
      JSON.stringify(fence),
      batch.head.stack.map(bytes),
      ...entryValues(batch.entries),
      ...callValues(batch.calls),
      batch.payloads.map((row) => row.callId),
      batch.payloads.map((row) => bytes(row.payload)),
      batch.payloads.map((row) => bytes(row.result)),
      batch.payloads.map((row) => row.keyId),
      describeOthers(batch),
    ],
  });
}
