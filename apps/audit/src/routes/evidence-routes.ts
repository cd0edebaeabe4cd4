import type { NoteVerifier, TreeHead } from '@countersign/merkle';
import {
  AddCosignaturesReply,
  type AskReply,
  CallRecord,
  CheckDatabaseReport,
  type EntryProof,
  type EvidenceServer,
  type Identity,
  ListCheckpointsReply,
  ListStreamsReply,
  ProveCallReply,
  ProveConsistencyReply,
  ProveInclusionReply,
} from '@countersign/protocol';
import { type ServerUnaryCall, type sendUnaryData, status } from '@grpc/grpc-js';
import type pg from 'pg';
import { checkDatabase } from '../proofs/check-database.ts';
import { addCosignatures, listCheckpoints } from '../proofs/cosignatures.ts';
import { proveConsistency, proveInclusion } from '../proofs/prove.ts';
import { ask } from '../query/ask.ts';
import type { FactIndex } from '../query/fact-index.ts';
import { receiptOf } from '../sequencer/call-receipt.ts';
import { isCallId } from '../sequencer/check-request.ts';
import { loadCall } from '../sequencer/cold-state.ts';
import type { StreamState } from '../streams/stream-follower.ts';

const MAX_PROOFS = 200;
/** Entries of one call that a proof of it holds; far beyond any call. */
const MAX_CALL_ENTRIES = 2_000;
const MAX_CHECKPOINTS = 1_000;

export type EvidenceContext = {
  /** Head over everything committed. */
  readonly head: () => TreeHead;
  readonly checkpointOf: (head: TreeHead) => string;
  readonly receiptIdentity: Identity;
  readonly logVerifier: NoteVerifier;
  readonly witnesses: readonly NoteVerifier[];
  readonly facts: FactIndex;
  readonly streams: () => StreamState[];
  /** Connections that only read. */
  readonly reader: pg.Pool;
  /** Connections that may also write what followers keep. */
  readonly pool: pg.Pool;
  readonly now: () => number;
  readonly log: (error: unknown) => void;
};

/** An answer that is no reply. */
class Refusal extends Error {
  readonly code: status;
  constructor(code: status, message: string) {
    super(message);
    this.code = code;
  }
}

/** The head, once the index covers it. */
async function indexedHead(context: EvidenceContext): Promise<TreeHead> {
  const head = context.head();
  if ((await context.facts.upTo(head.size)) >= head.size) return head;
  throw new Refusal(status.UNAVAILABLE, 'the index is behind the log; ask again');
}

async function entriesWithProofs(
  context: EvidenceContext,
  indexes: readonly number[],
  size: number,
): Promise<EntryProof[]> {
  const { rows } = await context.reader.query<{ log_index: string; leaf: Buffer }>(
    'select log_index, leaf from audit.entry where log_index = any($1) order by log_index',
    [indexes],
  );
  const places = rows.map((row) => Number(row.log_index));
  const proofs = await proveInclusion(context.reader, places, size);
  return rows.map((row, at) => ({
    logIndex: BigInt(row.log_index),
    leaf: row.leaf,
    proof: (proofs[at] ?? []).map((hash) => Buffer.from(hash)),
  }));
}

async function inclusion(context: EvidenceContext, wanted: readonly bigint[]): Promise<ProveInclusionReply> {
  const head = await indexedHead(context);
  const indexes = wanted.map(Number);
  if (indexes.length === 0 || indexes.length > MAX_PROOFS)
    throw new Refusal(status.INVALID_ARGUMENT, `ask for 1 to ${MAX_PROOFS} entries`);
  if (indexes.some((index) => index >= head.size))
    throw new Refusal(status.OUT_OF_RANGE, `the log has ${head.size} entries`);
  return ProveInclusionReply.fromPartial({
    entries: await entriesWithProofs(context, indexes, head.size),
    checkpoint: context.checkpointOf(head),
  });
}

async function consistency(context: EvidenceContext, oldSize: number, wanted: number): Promise<ProveConsistencyReply> {
  const head = await indexedHead(context);
  const newSize = wanted === 0 ? head.size : wanted;
  if (oldSize < 1 || oldSize > newSize || newSize > head.size)
    throw new Refusal(status.OUT_OF_RANGE, `sizes go from 1 to ${head.size}, the older one first`);
  const { proof, root } = await proveConsistency(context.reader, oldSize, newSize);
  const checkpoint = wanted === 0 ? context.checkpointOf(head) : '';
  return ProveConsistencyReply.fromPartial({
    proof: proof.map((hash) => Buffer.from(hash)),
    newSize: BigInt(newSize),
    newRoot: Buffer.from(root),
    checkpoint,
  });
}

async function call(context: EvidenceContext, callId: string): Promise<ProveCallReply> {
  if (!isCallId(callId)) throw new Refusal(status.NOT_FOUND, 'no such call');
  const head = await indexedHead(context);
  const found = await context.reader.query<{ log_index: string }>(
    'select log_index from audit.entry where call_id = $1 and log_index < $2 order by log_index limit $3',
    [callId, head.size, MAX_CALL_ENTRIES],
  );
  if (found.rows.length === 0) throw new Refusal(status.NOT_FOUND, 'no such call');
  const indexes = found.rows.map((row) => Number(row.log_index));
  const connection = await context.reader.connect();
  try {
    const known = await loadCall(connection, callId);
    const receipt = known && receiptOf(known, context.receiptIdentity);
    return ProveCallReply.fromPartial({
      entries: await entriesWithProofs(context, indexes, head.size),
      checkpoint: context.checkpointOf(head),
      ...(known ? { call: CallRecord.fromPartial(known.record) } : {}),
      ...(receipt ? { receipt } : {}),
    });
  } finally {
    connection.release();
  }
}

type Unary<Request, Reply> = (call: ServerUnaryCall<Request, Reply>, reply: sendUnaryData<Reply>) => void;

/** The gRPC service of evidence. */
export function evidenceRoutes(context: EvidenceContext): EvidenceServer {
  const route =
    <Request, Reply>(work: (request: Request) => Promise<Reply>): Unary<Request, Reply> =>
    ({ request }, reply) => {
      work(request).then(
        (found) => reply(null, found),
        (error: unknown) => {
          if (error instanceof Refusal) return reply({ code: error.code, details: error.message });
          context.log(error);
          return reply({ code: status.INTERNAL, details: 'the record could not be read; see the audit log' });
        },
      );
    };
  return {
    proveInclusion: route((request) => inclusion(context, request.logIndexes)),
    proveConsistency: route((request) => consistency(context, Number(request.oldSize), Number(request.newSize))),
    proveCall: route((request) => call(context, request.callId)),
    ask: route(async (request): Promise<AskReply> => {
      const entries = await context.facts.upTo(context.head().size);
      const answer = await ask(request, { pool: context.reader, nowMs: context.now(), entries });
      if (answer.ok) return answer.value;
      throw new Refusal(status.INVALID_ARGUMENT, answer.error);
    }),
    listCheckpoints: route(async (request) => {
      const limit = Math.min(request.limit || 100, MAX_CHECKPOINTS);
      const found = await listCheckpoints(context.reader, { limit, before: Number(request.beforeSize) });
      return ListCheckpointsReply.fromPartial({
        checkpoints: found.map(({ size, note }) => ({ size: BigInt(size), note })),
      });
    }),
    addCosignatures: route(async (request) => {
      const witnesses = await addCosignatures(context.pool, request.note, context.witnesses, context.now());
      if (witnesses.length === 0)
        throw new Refusal(status.INVALID_ARGUMENT, 'no cosignature of a known witness on a stored checkpoint');
      return AddCosignaturesReply.fromPartial({ witnesses });
    }),
    listStreams: route(async () =>
      ListStreamsReply.fromPartial({
        streams: context.streams().map(({ name, next, lag, gaps, failures, problem }) => ({
          name,
          nextIndex: BigInt(next),
          lag: BigInt(lag),
          gaps: BigInt(gaps),
          failures: BigInt(failures),
          problem,
        })),
        indexLag: BigInt(context.head().size - context.facts.size),
      }),
    ),
    checkDatabase: (stream) => {
      const run = async () => {
        const head = await indexedHead(context);
        let last = { entries: 0, moreProblems: 0 };
        for await (const report of checkDatabase(context.reader, context.logVerifier)) {
          if (stream.cancelled) return;
          last = report;
          const problems = report.problems.map(({ index, code, message }) => ({
            code,
            message,
            ...(index === null ? {} : { logIndex: BigInt(index) }),
          }));
          stream.write(CheckDatabaseReport.fromPartial({ problems, entries: BigInt(report.entries) }));
        }
        stream.write(
          CheckDatabaseReport.fromPartial({
            entries: BigInt(last.entries),
            finished: true,
            checkpoint: context.checkpointOf(head),
            moreProblems: BigInt(last.moreProblems),
          }),
        );
        stream.end();
      };
      run().catch((error: unknown) => {
        context.log(error);
        stream.destroy(Object.assign(new Error('check failed'), { code: status.INTERNAL }));
      });
    },
  };
}
