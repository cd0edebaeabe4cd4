import { type AuditEntry, appendLeaf, canonicalEntryBytes, leafHash, type TreeHead } from '@countersign/merkle';
import { AppendRefusal, AppendReply, AppendRequest, type EntryDraft } from '@countersign/protocol';
import { changeFreeze, type FreezeChange, type FreezeState } from '../freeze/freeze-state.ts';
import type { GrantMemory } from '../grants/grant-memory.ts';
import { type PayloadPart, payloadKeyId } from '../payload/payload-keys.ts';
import type { Batch, DocumentRow, EntryRow, FreezeRow, PayloadRow } from './batch.ts';
import type { CallMemory } from './call-memory.ts';
import { receiptOf } from './call-receipt.ts';
import { type Body, readBody } from './check-request.ts';
import { type ColdState, knownDocument } from './cold-state.ts';
import { type CommittedDocument, documentDigest } from './document-digest.ts';
import { judge } from './judge.ts';
import type { SequencerOptions } from './sequencer.ts';
import { sha256 } from './sha256.ts';

const hex = (data: Uint8Array): string => Buffer.from(data).toString('hex');

/** Identity of a draft for replays: everything but the time at which the sender wrote it. No name holds a line feed. */
function draftHash(draft: EntryDraft): Uint8Array {
  const names = `${draft.id}\n${draft.type}\n${draft.stream}\n${draft.callId}\n${draft.toState}\n`;
  return sha256(Buffer.concat([Buffer.from(names), draft.body]));
}

export type BuilderOptions = Pick<SequencerOptions, 'epoch' | 'tenant' | 'receiptIdentity' | 'payloads'>;
/** The log before a batch. */
export type LogState = { readonly head: TreeHead; readonly recordedMs: number; readonly freezes: FreezeState };

const refusal = (requestId: bigint, code: string, message: string): AppendReply =>
  AppendReply.fromPartial({ requestId, refusal: { code: `countersign.audit.${code}`, message } });

/** A payload on its way into the log, and the entry that commits to its ciphertext. */
type Sealed = {
  readonly callId: string;
  readonly part: PayloadPart;
  readonly bytes: Uint8Array;
  readonly digest: string;
  readonly entryId: string;
  readonly keyId: string;
};

/** The body of an entry with the digest of the ciphertext that it commits to. */
function committing(body: Body, draft: EntryDraft, sealed: Sealed | undefined): Body {
  if (sealed?.entryId !== draft.id) return body;
  const tool = typeof body.tool === 'object' && body.tool !== null ? body.tool : {};
  const name = sealed.part === 'call' ? 'payload_digest' : 'result_digest';
  return { ...body, tool: { ...tool, [name]: sealed.digest } };
}

type Building = {
  readonly sealed?: Sealed | undefined;
  readonly committed: readonly CommittedDocument[];
  readonly isOwn: boolean;
};

const namesDocuments = ({ detail }: Body): boolean =>
  typeof detail === 'object' && detail !== null && Object.hasOwn(detail, 'documents');

function withDocuments(body: Body, documents: readonly CommittedDocument[]): Body {
  if (documents.length === 0) return body;
  const detail = typeof body.detail === 'object' && body.detail !== null ? body.detail : {};
  return { ...body, detail: { ...detail, documents } };
}

/** Builds one batch; `cold` holds everything the requests touch and is moved forward as they are accepted. */
export class BatchBuilder {
  readonly #options: BuilderOptions;
  readonly #cold: ColdState;
  readonly #first: number;
  readonly #recordedMs: number;
  #head: TreeHead;
  readonly #rows: EntryRow[] = [];
  readonly #calls = new Map<string, CallMemory>();
  readonly #payloads = new Map<string, PayloadRow>();
  readonly #documents = new Map<string, DocumentRow>();
  readonly #freezeRows: FreezeRow[] = [];
  #freezes: FreezeState;

  constructor(options: BuilderOptions, cold: ColdState, before: LogState) {
    this.#options = options;
    this.#cold = cold;
    this.#first = before.head.size;
    this.#head = before.head;
    this.#recordedMs = before.recordedMs;
    this.#freezes = before.freezes;
  }

  /** What is frozen after the batch. */
  get freezes(): FreezeState {
    return this.#freezes;
  }

  /** Judges a request and, when it may be recorded, adds it whole. */
  add(request: AppendRequest, isOwn = false): AppendReply {
    const replayed = this.#replay(request);
    if (replayed) return replayed;
    const judged = judge(request, {
      call: (callId) => this.#cold.calls.get(callId),
      document: (kind, key) => this.#cold.documents.get(`${kind}/${key}`),
      freezes: this.#freezes,
      nowMs: this.#recordedMs,
    });
    if (!judged.ok) return AppendReply.fromPartial({ requestId: request.requestId, refusal: judged.refusal });
    const sealed = this.#seal(request, judged.calls);
    const documents = this.#documentsOf(request, judged.grants);
    const built = this.#build(request, {
      ...{ sealed, isOwn },
      committed: documents.map(({ committed }) => committed),
    });
    if (typeof built === 'string') return refusal(request.requestId, 'invalid', built);
    if (sealed) this.#keepPayload(sealed);
    this.#accept(request, built, judged.calls);
    for (const { committed, value } of documents) this.#keepDocument(committed.kind, committed.key, value);
    return this.#reply(request, built.rows, false);
  }

  /** Changes what is frozen; every request after it in this batch meets the new state. */
  changeFreeze(change: FreezeChange): AppendReply {
    const step = changeFreeze(this.#freezes, change, this.#recordedMs);
    if (!step.ok) return refusal(0n, step.error.code, step.error.message);
    const { entry, state } = step.value;
    if (!entry) return AppendReply.fromPartial({ replayed: true });
    const request = AppendRequest.fromPartial({ entries: [entry] });
    const built = this.#build(request, { isOwn: true, committed: [] });
    if (typeof built === 'string') return refusal(0n, 'invalid', built);
    this.#accept(request, built, new Map());
    this.#freezes = state;
    this.#freezeRows.push({ change, epoch: state.epoch });
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
      documents: [...this.#documents.values()],
      freezeEpoch: this.#freezes.epoch,
      freezes: this.#freezeRows,
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
      const conflict = AppendRefusal.fromPartial({
        code: 'countersign.audit.conflict',
        message: 'an entry with the same id and other content is in the log',
        state: call?.record.state ?? '',
        winner: call?.record.decidedByName ?? '',
        winnerKind: call?.record.decidedBy ?? '',
      });
      return AppendReply.fromPartial({ requestId: request.requestId, refusal: conflict });
    }
    const rows = request.entries.flatMap((draft, at) => {
      const first = known[at];
      return first
        ? [{ id: draft.id, index: first.index, leafHash: first.leafHash, recordedMs: first.recordedMs }]
        : [];
    });
    return this.#reply(request, rows, true);
  }

  /** INVARIANT: every document that a request changes is committed to by its first entry. */
  #documentsOf(request: AppendRequest, grants: readonly GrantMemory[]) {
    const changed = [
      ...request.documents,
      ...grants.map((grant) => ({
        kind: 'grant',
        key: grant.id,
        value: new TextEncoder().encode(JSON.stringify(grant)),
      })),
    ];
    return changed.map(({ kind, key, value }) => {
      const version = Number(this.#cold.documents.get(`${kind}/${key}`)?.version ?? 0n) + 1;
      const digest = documentDigest(JSON.parse(new TextDecoder().decode(value)));
      return { value, committed: { kind, key, version, sha256: digest } };
    });
  }

  #build(
    request: AppendRequest,
    { sealed, committed, isOwn }: Building,
  ): { rows: EntryRow[]; head: TreeHead } | string {
    const rows: EntryRow[] = [];
    const chains = new Map<string, { seq: number; leaf: string }>();
    let head = this.#head;
    for (const draft of request.entries) {
      if (this.#cold.entries.has(draft.id) || rows.some((row) => row.id === draft.id))
        return `entry id \`${draft.id}\` occurs twice`;
      const body = readBody(draft);
      if (typeof body === 'string') return body;
      if (!isOwn && namesDocuments(body)) return 'what an entry commits to is not for a sender to say';
      const last = chains.get(draft.stream) ?? this.#cold.streams.get(draft.stream);
      const seq = last ? last.seq + 1 : 0;
      const bytes = canonicalEntryBytes({
        ...withDocuments(committing(body, draft, sealed), rows.length === 0 ? committed : []),
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
      const kept = { record: call.record, decision: decision ?? call.decision };
      this.#calls.set(callId, kept);
      this.#cold.calls.set(callId, kept);
    }
  }

  #keepDocument(kind: string, key: string, value: Uint8Array): void {
    const name = `${kind}/${key}`;
    const known = this.#cold.documents.get(name)?.version ?? 0n;
    const version = known + 1n;
    const base = this.#documents.get(name)?.base ?? known;
    this.#documents.set(name, { kind, key, base, version, value });
    this.#cold.documents.set(name, knownDocument(name, version, JSON.parse(new TextDecoder().decode(value))));
  }

  /** INVARIANT: a call's payload is encrypted and written once, with its first entry; a result only with a transition. */
  #seal(request: AppendRequest, calls: ReadonlyMap<string, CallMemory>): Sealed | undefined {
    const callId = request.entries.find((draft) => draft.callId !== '')?.callId ?? '';
    const record = calls.get(callId)?.record;
    if (!record) return undefined;
    const part: PayloadPart = this.#cold.calls.has(callId) ? 'result' : 'call';
    const plain = part === 'call' ? (request.call?.sealedPayload ?? new Uint8Array()) : request.sealedResult;
    if (plain.length === 0) return undefined;
    const bytes = this.#options.payloads.seal(record.sessionId, callId, part, plain);
    const transition = request.entries.findLast((draft) => draft.toState !== '');
    const entryId = part === 'call' ? request.entries.find(({ type }) => type === 'call.received')?.id : transition?.id;
    return {
      callId,
      part,
      bytes,
      digest: hex(sha256(bytes)),
      entryId: entryId ?? '',
      keyId: payloadKeyId(record.sessionId),
    };
  }

  #keepPayload({ callId, part, bytes, keyId }: Sealed): void {
    const none = new Uint8Array();
    const kept = this.#payloads.get(callId) ?? { callId, payload: none, result: none, keyId };
    this.#payloads.set(callId, part === 'call' ? { ...kept, payload: bytes } : { ...kept, result: bytes });
  }

  #reply(
    request: AppendRequest,
    rows: readonly { id: string; index: number; leafHash: Uint8Array; recordedMs: number }[],
    replayed: boolean,
  ): AppendReply {
    const about = request.entries.find((draft) => draft.callId !== '')?.callId ?? '';
    const call = this.#cold.calls.get(about);
    const dispatches = request.entries.some(({ toState }) => toState === 'dispatched' || toState === 'handed_over');
    const receipt = dispatches && call ? receiptOf(call, this.#options.receiptIdentity) : undefined;
    return {
      requestId: request.requestId,
      entries: rows.map((row) => ({
        id: row.id,
        logIndex: BigInt(row.index),
        leafHash: row.leafHash,
        recordedMs: BigInt(row.recordedMs),
      })),
      receipt,
      refusal: undefined,
      replayed,
      call: call?.record,
    };
  }
}
