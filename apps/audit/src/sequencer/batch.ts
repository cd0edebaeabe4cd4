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
  readonly payloads: readonly { callId: string; payload: Uint8Array; result: Uint8Array }[];
  readonly documents: readonly DocumentRow[];
  readonly freezeEpoch: bigint;
  readonly freezes: readonly FreezeRow[];
};

const bytes = (value: Uint8Array): Buffer => Buffer.from(value);

function describeFreeze({ change, epoch }: FreezeRow): object {
  if (change.kind !== 'confirm') return { ...change, epoch: String(epoch) };
  return { ...change, epoch: String(change.epoch) };
}

/** Writes a batch in one round trip and one commit. Rejects when the fence or a row count is not as expected. */
export async function commitBatch(client: pg.Client, batch: Batch): Promise<void> {
  const description = {
    epoch: String(batch.epoch),
    first: batch.first,
    next: batch.head.size,
    recorded_ms: batch.recordedMs,
    freeze_epoch: String(batch.freezeEpoch),
    freezes: batch.freezes.map(describeFreeze),
    entries: batch.entries.map((row) => ({
      id: row.id,
      i: row.index,
      stream: row.stream,
      seq: row.seq,
      type: row.type,
      call: row.callId,
      ms: row.recordedMs,
    })),
    calls: batch.calls.map(({ record, decision }) => ({
      call: record.callId,
      agent: record.agent,
      session: record.sessionId,
      state: record.state,
      ms: String(record.receivedMs),
      decision: decision ?? null,
    })),
    payloads: batch.payloads.map((row) => ({ call: row.callId })),
    documents: batch.documents.map((draft) => ({
      kind: draft.kind,
      key: draft.key,
      base: String(draft.base),
      version: String(draft.version),
      value: JSON.parse(new TextDecoder().decode(draft.value)) as unknown,
    })),
  };
  await client.query({
    name: 'append_batch',
    text: 'select audit.append_batch($1::jsonb, $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[])',
    values: [
      JSON.stringify(description),
      batch.entries.map((row) => bytes(row.leaf)),
      batch.entries.map((row) => bytes(row.leafHash)),
      batch.entries.map((row) => bytes(row.draftHash)),
      batch.calls.map(({ record }) => bytes(CallRecord.encode(record).finish())),
      batch.payloads.map((row) => bytes(row.payload)),
      batch.payloads.map((row) => bytes(row.result)),
      batch.head.stack.map(bytes),
    ],
  });
}
