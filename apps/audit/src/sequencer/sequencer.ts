import { createHash } from 'node:crypto';
import { type AuditEntry, appendLeaf, canonicalEntryBytes, leafHash, type TreeHead } from '@countersign/merkle';
import {
  AppendRefusal,
  AppendReply,
  type AppendRequest,
  EntryDraft,
  type Identity,
  type Receipt,
  signReceipt,
} from '@countersign/protocol';
import type pg from 'pg';
import { type Batch, commitBatch, type EntryRow } from './batch.ts';
import type { CallMemory } from './call-memory.ts';
import { type ColdState, loadCold } from './cold-state.ts';
import { judge } from './judge.ts';

const MAX_BATCH_ENTRIES = 500;
/** Requests that may wait; beyond it appends are refused instead of growing memory. */
const MAX_WAITING = 10_000;

const sha256 = (data: Uint8Array): Uint8Array => new Uint8Array(createHash('sha256').update(data).digest());
const hex = (data: Uint8Array): string => Buffer.from(data).toString('hex');

/** Identity of a draft for replays: everything but the time at which the sender wrote it. */
const draftHash = (draft: EntryDraft): Uint8Array => sha256(EntryDraft.encode({ ...draft, emittedMs: 0n }).finish());

type Waiting = { readonly request: AppendRequest; readonly resolve: (reply: AppendReply) => void };

export type SequencerOptions = {
  readonly client: pg.Client;
  readonly tenant: string;
  readonly epoch: bigint;
  readonly head: TreeHead;
  readonly freezeEpoch: bigint;
  readonly recordedMs: number;
  readonly receiptIdentity: Identity;
  readonly now: () => number;
  /** Told once when a commit failed; the process must end (crash-only), because memory is ahead of the database. */
  readonly onFault: (error: unknown) => void;
};

/**
 * The only writer of the log. Judges transitions in arrival order, answers losers without an entry, numbers and chains the
 * winners and commits what is waiting in one transaction. INVARIANT: a reply leaves only after COMMIT.
 */
export class Sequencer {
  readonly #options: SequencerOptions;
  readonly #waiting: Waiting[] = [];
  #head: TreeHead;
  #recordedMs: number;
  #running = false;
  #failed = false;
  /** Commits so far; a count that tests assert. */
  commits = 0;

  constructor(options: SequencerOptions) {
    this.#options = options;
    this.#head = options.head;
    this.#recordedMs = options.recordedMs;
  }

  /** Tree head over everything committed. */
  get head(): TreeHead {
    return this.#head;
  }

  /** Records a request or tells why not. Never rejects; does not answer any more after a fault. */
  append(request: AppendRequest): Promise<AppendReply> {
    if (this.#waiting.length >= MAX_WAITING) {
      const refusal = AppendRefusal.fromPartial({
        code: 'countersign.audit.busy',
        message: 'too many appends wait; send again',
      });
      return Promise.resolve(AppendReply.fromPartial({ requestId: request.requestId, refusal }));
    }
    return new Promise((resolve) => {
      this.#waiting.push({ request, resolve });
      if (!this.#running) void this.#run();
    });
  }

  /** Resolves when nothing waits any more. */
  async drain(): Promise<void> {
    while (this.#running && !this.#failed) await new Promise((resolve) => setTimeout(resolve, 5));
  }

  async #run(): Promise<void> {
    this.#running = true;
    // Requests of the same turn of the event loop share a commit.
    await new Promise((resolve) => setImmediate(resolve));
    try {
      while (this.#waiting.length > 0) await this.#commitWaiting();
      this.#running = false;
    } catch (error) {
      this.#failed = true;
      this.#options.onFault(error);
    }
  }

  #take(): Waiting[] {
    let entries = 0;
    let count = 0;
    for (const { request } of this.#waiting) {
      entries += request.entries.length;
      if (count > 0 && entries > MAX_BATCH_ENTRIES) break;
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }

  async #commitWaiting(): Promise<void> {
    const taken = this.#take();
    const requests = taken.map(({ request }) => request);
    const drafts = requests.flatMap((request) => request.entries);
    const cold = await loadCold(this.#options.client, {
      calls: [...new Set(drafts.map((draft) => draft.callId).filter((id) => id !== ''))],
      entries: drafts.map((draft) => draft.id),
      streams: [...new Set(drafts.map((draft) => draft.stream))],
      documents: requests.flatMap((request) => [
        ...request.documents.map((draft) => `${draft.kind}/${draft.key}`),
        ...(request.sessionVersion === 0n ? [] : [`session/${request.sessionId}`]),
      ]),
    });
    const building = new BatchBuilder(this.#options, cold, this.#head, Math.max(this.#recordedMs, this.#options.now()));
    const replies = requests.map((request) => building.add(request));
    const batch = building.batch();
    if (batch.entries.length > 0) {
      await commitBatch(this.#options.client, batch);
      this.commits += 1;
      this.#head = batch.head;
      this.#recordedMs = batch.recordedMs;
    }
    taken.forEach(({ resolve }, at) => {
      const reply = replies[at];
      if (reply) resolve(reply);
    });
  }
}

/** Receipt of a dispatched call; signing again gives the same bytes, because Ed25519 is deterministic. */
export function receiptOf(call: CallMemory, identity: Identity): Receipt | undefined {
  if (!call.decision || call.record.orderId === '') return undefined;
  return signReceipt(identity, {
    callId: call.record.callId,
    orderId: call.record.orderId,
    host: call.record.orderHost,
    callDigest: call.record.callDigest,
    entryId: call.decision.id,
    logIndex: BigInt(call.decision.index),
    leafHash: Buffer.from(call.decision.leafHash, 'hex'),
    decidedBy: call.record.decidedBy,
    assertionsDigest: Buffer.from(call.decision.assertionsDigest, 'hex'),
  });
}

/** Builds one batch; `cold` holds everything the requests touch and is moved forward as they are accepted. */
class BatchBuilder {
  readonly #options: SequencerOptions;
  readonly #cold: ColdState;
  readonly #first: number;
  readonly #recordedMs: number;
  #head: TreeHead;
  readonly #rows: EntryRow[] = [];
  readonly #calls = new Map<string, CallMemory>();
  readonly #payloads = new Map<string, { callId: string; payload: Uint8Array; result: Uint8Array }>();
  readonly #documents: AppendRequest['documents'] = [];

  constructor(options: SequencerOptions, cold: ColdState, head: TreeHead, recordedMs: number) {
    this.#options = options;
    this.#cold = cold;
    this.#first = head.size;
    this.#head = head;
    this.#recordedMs = recordedMs;
  }

  /** Judges a request and, when it may be recorded, adds it whole. */
  add(request: AppendRequest): AppendReply {
    const replayed = this.#replay(request);
    if (replayed) return replayed;
    const refuse = (refusal: AppendRefusal) => AppendReply.fromPartial({ requestId: request.requestId, refusal });
    const judged = judge(request, {
      call: (callId) => this.#calls.get(callId) ?? this.#cold.calls.get(callId),
      documentVersion: (kind, key) => this.#cold.documents.get(`${kind}/${key}`) ?? 0n,
      freezeEpoch: this.#options.freezeEpoch,
      nowMs: this.#recordedMs,
    });
    if (!judged.ok) return refuse(judged.refusal);
    const built = this.#build(request);
    if (typeof built === 'string') {
      return refuse(AppendRefusal.fromPartial({ code: 'countersign.audit.invalid', message: built }));
    }
    this.#accept(request, built, judged.calls);
    return this.#reply(request, built.rows, false);
  }

  batch(): Batch {
    return {
      epoch: this.#options.epoch,
      first: this.#first,
      head: this.#head,
      recordedMs: this.#recordedMs,
      entries: this.#rows,
      calls: [...this.#calls.values()],
      payloads: [...this.#payloads.values()],
      documents: this.#documents,
    };
  }

  #replay(request: AppendRequest): AppendReply | undefined {
    const known = request.entries.map((draft) => this.#cold.entries.get(draft.id));
    if (known.length === 0 || known.every((entry) => entry === undefined)) return undefined;
    const same = request.entries.every((draft, at) => {
      const first = known[at];
      return first !== undefined && Buffer.compare(first.draftHash, draftHash(draft)) === 0;
    });
    if (!same) {
      const call = this.#cold.calls.get(request.entries[0]?.callId ?? '');
      const refusal = AppendRefusal.fromPartial({
        code: 'countersign.audit.conflict',
        message: 'an entry with the same id and other content is in the log',
        state: call?.record.state ?? '',
        winner: call?.record.decidedByName ?? '',
        winnerKind: call?.record.decidedBy ?? '',
      });
      return AppendReply.fromPartial({ requestId: request.requestId, refusal });
    }
    const rows = request.entries.flatMap((draft, at) => {
      const first = known[at];
      return first
        ? [{ id: draft.id, index: first.index, leafHash: first.leafHash, recordedMs: first.recordedMs }]
        : [];
    });
    return this.#reply(request, rows, true);
  }

  #build(request: AppendRequest): { rows: EntryRow[]; head: TreeHead } | string {
    const rows: EntryRow[] = [];
    const chains = new Map<string, { seq: number; leaf: string }>();
    let head = this.#head;
    for (const draft of request.entries) {
      if (this.#cold.entries.has(draft.id) || rows.some((row) => row.id === draft.id))
        return `entry id \`${draft.id}\` occurs twice`;
      let body: object;
      try {
        body = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(draft.body)) as object;
      } catch {
        return `entry \`${draft.id}\` has a body that is not JSON`;
      }
      const last = chains.get(draft.stream) ?? this.#cold.streams.get(draft.stream);
      const seq = last ? last.seq + 1 : 0;
      const bytes = canonicalEntryBytes({
        ...body,
        version: 1,
        index: head.size,
        id: draft.id,
        tenant: this.#options.tenant,
        stream: draft.stream,
        stream_seq: seq,
        prev: last?.leaf ?? null,
        type: draft.type as AuditEntry['type'],
        emitted_ms: Number(draft.emittedMs),
        recorded_ms: this.#recordedMs,
        ...(draft.callId === '' ? {} : { call: draft.callId }),
      });
      if (!bytes.ok) return `entry \`${draft.id}\`: ${bytes.error.message}`;
      const hash = leafHash(sha256, bytes.value);
      chains.set(draft.stream, { seq, leaf: hex(hash) });
      rows.push({
        id: draft.id,
        index: head.size,
        stream: draft.stream,
        seq,
        type: draft.type,
        callId: draft.callId === '' ? null : draft.callId,
        recordedMs: this.#recordedMs,
        leaf: bytes.value,
        leafHash: hash,
        draftHash: draftHash(draft),
      });
      head = appendLeaf(sha256, head, hash);
    }
    return { rows, head };
  }

  #accept(request: AppendRequest, built: { rows: EntryRow[]; head: TreeHead }, calls: Map<string, CallMemory>): void {
    this.#head = built.head;
    for (const row of built.rows) {
      this.#rows.push(row);
      this.#cold.entries.set(row.id, row);
      this.#cold.streams.set(row.stream, { seq: row.seq, leaf: hex(row.leafHash) });
    }
    for (const [callId, call] of calls) {
      const decided = built.rows.find((row) => row.type === 'decision' && row.callId === callId);
      const decision = decided && {
        id: decided.id,
        index: decided.index,
        leafHash: hex(decided.leafHash),
        assertionsDigest: hex(request.assertionsDigest),
      };
      this.#calls.set(callId, { record: call.record, decision: decision ?? call.decision });
    }
    const callId = request.entries.find((draft) => draft.callId !== '')?.callId;
    if (callId !== undefined && (request.call || request.sealedResult.length > 0)) {
      const payload = request.call?.sealedPayload ?? this.#payloads.get(callId)?.payload ?? new Uint8Array();
      this.#payloads.set(callId, { callId, payload, result: request.sealedResult });
    }
    for (const draft of request.documents) {
      this.#documents.push(draft);
      this.#cold.documents.set(`${draft.kind}/${draft.key}`, draft.expectedVersion + 1n);
    }
  }

  #reply(
    request: AppendRequest,
    rows: readonly { id: string; index: number; leafHash: Uint8Array; recordedMs: number }[],
    replayed: boolean,
  ): AppendReply {
    const dispatched = request.entries.find((draft) => draft.toState === 'dispatched');
    const call = dispatched && (this.#calls.get(dispatched.callId) ?? this.#cold.calls.get(dispatched.callId));
    const receipt = call && receiptOf(call, this.#options.receiptIdentity);
    return AppendReply.fromPartial({
      requestId: request.requestId,
      entries: rows.map((row) => ({
        id: row.id,
        logIndex: BigInt(row.index),
        leafHash: row.leafHash,
        recordedMs: BigInt(row.recordedMs),
      })),
      ...(receipt ? { receipt } : {}),
      replayed,
    });
  }
}
