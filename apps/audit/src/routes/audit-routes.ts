import { randomUUID } from 'node:crypto';
import type { EventEmitter } from 'node:events';
import type { TreeHead } from '@countersign/merkle';
import {
  AppendRequest,
  type AuditServer,
  CallRecord,
  type Document,
  type GetPayloadReply,
  type Identity,
  ListCallsReply,
  ListDocumentsReply,
  type ListDocumentsRequest,
} from '@countersign/protocol';
import { status } from '@grpc/grpc-js';
import type pg from 'pg';
import type { PayloadKeys, PayloadPart } from '../payload/payload-keys.ts';
import { readHashes } from '../query/fact-index.ts';
import { receiptOf } from '../sequencer/call-receipt.ts';
import { isCallId } from '../sequencer/check-request.ts';
import { loadCall } from '../sequencer/cold-state.ts';
import type { Sequencer } from '../sequencer/sequencer.ts';
import { freezeRoutes } from './freeze-routes.ts';

/** Leaves in one message: 200 of the largest stay below the 8 MiB limit of a message. */
const EXPORT_PAGE = 200;
/** Leaf hashes in one message of an export. */
const HASH_PAGE = 8_192;
const MAX_PAGE = 500;
/** Documents of one page. */
const DOCUMENT_PAGE = 1_000;
/** Bytes of one page of calls; views make them large. */
const MAX_PAGE_BYTES = 4 * 1_048_576;

export type RouteContext = {
  readonly sequencer: Sequencer;
  readonly payloads: PayloadKeys;
  /** Connection for reads; never the writer's. */
  readonly reader: pg.Pool;
  readonly receiptIdentity: Identity;
  readonly checkpointOf: (head: TreeHead) => string;
  /** Tells the hosts the present state at once. */
  readonly publishBeat: () => void;
  readonly now: () => number;
  readonly log: (error: unknown) => void;
};

type Reply<T> = (error: { code: status; details: string } | null, value?: T) => void;

/** Runs a read and answers; a fault becomes INTERNAL without its text. */
function answer<T>(context: RouteContext, reply: Reply<T>, work: () => Promise<T | undefined>): void {
  work().then(
    (value) => (value === undefined ? reply({ code: status.NOT_FOUND, details: 'not found' }) : reply(null, value)),
    (error: unknown) => {
      context.log(error);
      reply({ code: status.INTERNAL, details: 'the record could not be read; see the audit log' });
    },
  );
}

async function readCall(context: RouteContext, agent: string, callId: string): Promise<CallRecord | undefined> {
  if (!isCallId(callId) || !(agent === '' || isCallId(agent))) return undefined;
  const { rows } = await context.reader.query<{ record: Buffer }>(
    "select record from audit.call where call_id = $1 and ($2 = '' or agent = $2)",
    [callId, agent],
  );
  const row = rows[0];
  return row && CallRecord.decode(row.record);
}

/** Payload and result of a call; empty where there is none or its key was destroyed, which `erased` tells. */
async function readPayload(context: RouteContext, callId: string): Promise<GetPayloadReply> {
  const { rows } = await context.reader.query<{ p: Buffer; r: Buffer; key_id: string }>(
    'select sealed_payload as p, sealed_result as r, key_id from audit.payload where call_id = $1',
    [callId],
  );
  const row = rows[0];
  const none = new Uint8Array();
  if (!row) return { sealedPayload: none, sealedResult: none, erased: false };
  if (row.key_id === '') return { sealedPayload: row.p, sealedResult: row.r, erased: false };
  const part = async (name: PayloadPart, bytes: Buffer) =>
    bytes.length === 0 ? none : context.payloads.open(row.key_id, callId, name, bytes);
  const [payload, result] = [await part('call', row.p), await part('result', row.r)];
  const erased = payload === undefined || result === undefined;
  return { sealedPayload: payload ?? none, sealedResult: result ?? none, erased };
}

async function listCalls(
  context: RouteContext,
  request: { states: string[]; sessionId: string; limit: number; pageToken: string },
) {
  const limit = Math.min(request.limit || 100, MAX_PAGE);
  const [time, id] = /^(\d{1,16}):([\w-]{1,64})$/.exec(request.pageToken)?.slice(1, 3) ?? ['9007199254740991', '~'];
  const { rows } = await context.reader.query<{ record: Buffer; received_ms: string; call_id: string }>(
    `select record, received_ms, call_id from audit.call where (cardinality($1::text[]) = 0 or state = any($1)) and ($2 = '' or session_id = $2)
     and (received_ms, call_id) < ($3::bigint, $4) order by received_ms desc, call_id desc limit $5`,
    [request.states, request.sessionId, time, id, limit],
  );
  const page: typeof rows = [];
  let bytes = 0;
  for (const row of rows) {
    bytes += row.record.length;
    if (page.length > 0 && bytes > MAX_PAGE_BYTES) break;
    page.push(row);
  }
  const last = page.at(-1);
  const nextPageToken =
    (rows.length === limit || page.length < rows.length) && last ? `${last.received_ms}:${last.call_id}` : '';
  return ListCallsReply.fromPartial({ calls: page.map((row) => CallRecord.decode(row.record)), nextPageToken });
}

/** One page of documents in the order of their keys, small enough for one message. */
async function listDocuments(
  context: RouteContext,
  { kind, key, afterKey }: ListDocumentsRequest,
): Promise<ListDocumentsReply> {
  const { rows } = await context.reader.query<{ key: string; version: string; value: unknown }>(
    `select key, version, value from audit.document
     where kind = $1 and ($2 = '' or key = $2) and ($3 = '' or key > $3) order by key limit ${DOCUMENT_PAGE}`,
    [kind, key, afterKey],
  );
  const documents: Document[] = [];
  let bytes = 0;
  for (const row of rows) {
    const value = Buffer.from(JSON.stringify(row.value));
    bytes += value.length;
    if (documents.length > 0 && bytes > MAX_PAGE_BYTES) break;
    documents.push({ kind, key: row.key, version: BigInt(row.version), value });
  }
  const isWhole = documents.length === rows.length && rows.length < DOCUMENT_PAGE;
  return ListDocumentsReply.fromPartial({ documents, nextKey: isWhole ? '' : (documents.at(-1)?.key ?? '') });
}

/** Leaf hashes of the entries that were dropped, in order, 32 bytes each. */
async function* droppedPages(context: RouteContext, first: number): AsyncGenerator<Buffer> {
  for (let from = 0; from < first; from += HASH_PAGE) {
    const to = Math.min(first, from + HASH_PAGE);
    const hashes = await readHashes(context.reader, { level: 0, from, to });
    if (hashes.length !== to - from) throw new Error(`leaf hashes ${from} to ${to - 1} are missing`);
    yield Buffer.concat(hashes);
  }
}

/** Index of the first entry that was not dropped. */
async function firstIndex(reader: pg.Pool): Promise<number> {
  const { rows } = await reader.query<{ kept_from: string }>('select kept_from from audit.head');
  return Number(rows[0]?.kept_from ?? 0);
}

async function readTime(reader: pg.Pool): Promise<{ databaseMs: bigint }> {
  const { rows } = await reader.query<{ ms: string }>(
    'select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as ms',
  );
  return { databaseMs: BigInt(rows[0]?.ms ?? 0) };
}

async function* leafPages(context: RouteContext, first: number, size: number): AsyncGenerator<Buffer[]> {
  for (let from = first; from < size; from += EXPORT_PAGE) {
    const { rows } = await context.reader.query<{ leaf: Buffer }>(
      'select leaf from audit.entry where log_index >= $1 and log_index < $2 order by log_index',
      [from, Math.min(size, from + EXPORT_PAGE)],
    );
    yield rows.map((row) => row.leaf);
  }
}

/** Resolves when the reader takes more, or has gone. */
const drained = (stream: EventEmitter): Promise<void> =>
  new Promise((resolve) => {
    const go = () => {
      stream.off('drain', go).off('cancelled', go);
      resolve();
    };
    stream.on('drain', go).on('cancelled', go);
  });

const readEntry = (callId: string, reader: string, nowMs: number): AppendRequest =>
  AppendRequest.fromPartial({
    entries: [
      {
        id: `ent_${callId}_audit.read_${randomUUID()}`,
        type: 'audit.read',
        stream: callId,
        emittedMs: BigInt(nowMs),
        callId,
        body: new TextEncoder().encode(JSON.stringify({ detail: { reader } })),
      },
    ],
  });

/** The gRPC service of the record. */
export function auditRoutes(context: RouteContext): AuditServer {
  return {
    ...freezeRoutes(context),
    append: (stream) => {
      let waiting = 0;
      let ended = false;
      const endWhenAnswered = () => {
        if (ended && waiting === 0) stream.end();
      };
      stream.on('data', (request: AppendRequest) => {
        waiting += 1;
        void context.sequencer.append(request).then((reply) => {
          waiting -= 1;
          stream.write(reply);
          endWhenAnswered();
        });
      });
      stream.on('end', () => {
        ended = true;
        endWhenAnswered();
      });
      stream.on('error', () => undefined);
    },
    getCall: ({ request }, reply) => answer(context, reply, () => readCall(context, request.agent, request.callId)),
    listCalls: ({ request }, reply) => answer(context, reply, () => listCalls(context, request)),
    getPayload: ({ request }, reply) => {
      if (request.reader === '')
        return reply({ code: status.INVALID_ARGUMENT, details: 'name the reader; a reading is an entry' });
      answer(context, reply, async () => {
        if (!(await readCall(context, '', request.callId))) return undefined;
        const recorded = await context.sequencer.append(readEntry(request.callId, request.reader, context.now()));
        if (recorded.refusal) throw new Error(`reading could not be recorded: ${recorded.refusal.message}`);
        return readPayload(context, request.callId);
      });
    },
    listDocuments: ({ request }, reply) => answer(context, reply, () => listDocuments(context, request)),
    getCheckpoint: (_call, reply) => reply(null, { checkpoint: context.checkpointOf(context.sequencer.head) }),
    getTime: (_call, reply) => answer(context, reply, () => readTime(context.reader)),
    getReceipt: ({ request }, reply) =>
      answer(context, reply, async () => {
        if (!isCallId(request.callId)) return undefined;
        const connection = await context.reader.connect();
        try {
          const call = await loadCall(connection, request.callId);
          return call && receiptOf(call, context.receiptIdentity);
        } finally {
          connection.release();
        }
      }),
    export: (stream) => {
      const head = context.sequencer.head;
      const send = async () => {
        const none = Buffer.alloc(0);
        const first = await firstIndex(context.reader);
        for await (const dropped of droppedPages(context, first)) {
          if (stream.cancelled) return;
          if (!stream.write({ leaves: [], checkpoint: '', dropped })) await drained(stream);
        }
        for await (const leaves of leafPages(context, first, head.size)) {
          if (stream.cancelled) return;
          if (!stream.write({ leaves, checkpoint: '', dropped: none })) await drained(stream);
        }
        stream.write({ leaves: [], checkpoint: context.checkpointOf(head), dropped: none });
        stream.end();
      };
      send().catch((error: unknown) => {
        context.log(error);
        stream.destroy(Object.assign(new Error('export failed'), { code: status.INTERNAL }));
      });
    },
  };
}
