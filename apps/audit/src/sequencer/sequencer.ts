import type { AtStep } from '@countersign/kernel';
import type { TreeHead } from '@countersign/merkle';
import { AppendRefusal, AppendReply, AppendRequest, type Identity } from '@countersign/protocol';
import type pg from 'pg';
import { PARTITION_ENTRIES } from '../db/migrations.ts';
import type { FreezeChange, FreezeState } from '../freeze/freeze-state.ts';
import type { Revocations } from '../freeze/revocations.ts';
import { grantsOf } from '../grants/judge-grants.ts';
import type { PayloadKeys } from '../payload/payload-keys.ts';
import type { AuditStep } from './audit-step.ts';
import { type Batch, commitBatch } from './batch.ts';
import { BatchBuilder, type LogState } from './batch-builder.ts';
import { checkForeign, checkRequest, weightOf } from './check-request.ts';
import { type ColdKeys, loadCold } from './cold-state.ts';
import { HotState } from './hot-state.ts';

const MAX_BATCH_ENTRIES = 500;
const MAX_BATCH_BYTES = 16 * 1_048_576;
/** Requests and bytes that may wait; beyond them appends are refused instead of growing memory. */
const MAX_WAITING = 10_000;
const MAX_WAITING_BYTES = 256 * 1_048_576;

type Waiting = {
  readonly request: AppendRequest;
  /** Set instead of entries: the builder makes the entry, because the change gets its epoch in order. */
  readonly freeze?: FreezeChange;
  /** What the record itself says; a sender may not say as much. */
  readonly isOwn?: true;
  readonly bytes: number;
  readonly resolve: (reply: AppendReply) => void;
};

type Prepared = {
  readonly taken: readonly Waiting[];
  readonly replies: readonly AppendReply[];
  readonly batch: Batch;
  /** The log after the batch. */
  readonly log: LogState;
};

export type SequencerOptions = {
  /** Writes; nothing else does. */
  readonly client: pg.Client;
  /** Reads while the writer commits. */
  readonly loader: pg.ClientBase;
  readonly tenant: string;
  readonly payloads: PayloadKeys;
  readonly epoch: bigint;
  /** The log as it was taken over. */
  readonly log: LogState;
  readonly revocations: Revocations;
  readonly receiptIdentity: Identity;
  readonly now: () => number;
  /** Calls, entries, streams and documents that memory keeps, each; what it does not keep is read again. */
  readonly memoryItems?: number;
  /** Entries of a partition that is made from now on. */
  readonly partitionEntries?: number;
  readonly atStep: AtStep<AuditStep>;
  /** Told once when a commit failed; the process must end (crash-only), because memory is ahead of the database. */
  readonly onFault: (error: unknown) => void;
};

function refused(request: AppendRequest, code: string, message: string): Promise<AppendReply> {
  const refusal = AppendRefusal.fromPartial({ code: `countersign.audit.${code}`, message });
  return Promise.resolve(AppendReply.fromPartial({ requestId: request.requestId, refusal }));
}

/**
 * The only writer of the log. Judges transitions in arrival order, answers losers without an entry, numbers and chains the
 * winners and commits what is waiting in one transaction. INVARIANT: a reply leaves only after COMMIT.
 */
export class Sequencer {
  readonly #options: SequencerOptions;
  readonly #waiting: Waiting[] = [];
  readonly #between: (() => Promise<void>)[] = [];
  #waitingBytes = 0;
  /** Entries below this index have their partitions. */
  #partitioned = 0;
  /** As committed. */
  #log: LogState;
  /** As judged: ahead of what is committed by the batch in flight. */
  #judged: LogState;
  #committing: Promise<void> = Promise.resolve();
  /** Requests of the batch in flight. */
  #inFlight = 0;
  readonly #hot: HotState;
  #running = false;
  #failed = false;
  /** Commits so far; a count that tests assert. */
  commits = 0;

  constructor(options: SequencerOptions) {
    this.#options = options;
    this.#log = options.log;
    this.#hot = new HotState(options.memoryItems);
    this.#judged = options.log;
  }

  /** Tree head over everything committed. */
  get head(): TreeHead {
    return this.#log.head;
  }

  /** What is frozen, as committed. */
  get freezes(): FreezeState {
    return this.#log.freezes;
  }

  /** Orders that must not start. */
  revokedOrders(): string[] {
    return this.#options.revocations.list(this.#options.now());
  }

  /** Records a request or tells why not. Never rejects; does not answer any more after a fault. */
  append(request: AppendRequest): Promise<AppendReply> {
    const foreign = checkForeign(request);
    return foreign === undefined ? this.#admit({ request }) : refused(request, 'invalid', foreign);
  }

  /** Like `append`, for what the record itself says. */
  appendOwn(request: AppendRequest): Promise<AppendReply> {
    return this.#admit({ request, isOwn: true });
  }

  #admit(item: Pick<Waiting, 'request' | 'isOwn'>): Promise<AppendReply> {
    const { request } = item;
    const bytes = weightOf(request);
    if (this.#waiting.length >= MAX_WAITING || this.#waitingBytes + bytes > MAX_WAITING_BYTES)
      return refused(request, 'busy', 'too many appends wait; send again');
    const wrong = checkRequest(request);
    if (wrong !== undefined) return refused(request, 'invalid', wrong);
    this.#options.atStep('append.received');
    return this.#wait({ ...item, bytes });
  }

  /**
   * Changes what is frozen, in order with the appends: those after it meet the new state. Answers like `append`; `replayed`
   * when nothing had to change.
   */
  changeFreeze(freeze: FreezeChange): Promise<AppendReply> {
    return this.#wait({ request: AppendRequest.fromPartial({}), freeze, bytes: 0 });
  }

  /** Does `work` while nothing is judged or on its way to the disk. */
  between(work: () => Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#between.push(() => work().then(resolve, reject));
      if (!this.#running) void this.#run();
    });
  }

  #wait(item: Omit<Waiting, 'resolve'>): Promise<AppendReply> {
    return new Promise((resolve) => {
      this.#waiting.push({ ...item, resolve });
      this.#waitingBytes += item.bytes;
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
      while (this.#waiting.length + this.#between.length > 0) {
        await this.#doBetween();
        if (this.#waiting.length < this.#inFlight / 2) await this.#committing;
        const prepared = await this.#prepare();
        await this.#committing;
        if (this.#failed) return;
        this.#committing = this.#commit(prepared).catch((error: unknown) => this.#fail(error));
      }
      await this.#committing;
      if (this.#waiting.length + this.#between.length > 0) return void this.#run();
      this.#running = false;
    } catch (error) {
      this.#fail(error);
    }
  }

  async #doBetween(): Promise<void> {
    if (this.#between.length === 0) return;
    await this.#committing;
    for (const work of this.#between.splice(0)) await work();
  }

  #fail(error: unknown): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#options.onFault(error);
  }

  #take(): Waiting[] {
    let entries = 0;
    let size = 0;
    let count = 0;
    for (const { request, bytes } of this.#waiting) {
      if (count > 0 && (entries + request.entries.length > MAX_BATCH_ENTRIES || size + bytes > MAX_BATCH_BYTES)) break;
      entries += request.entries.length;
      size += bytes;
      count += 1;
    }
    this.#waitingBytes -= size;
    return this.#waiting.splice(0, count);
  }

  /** Makes the partitions that entries up to `size` need; a statement of its own only at a partition's first entry. */
  async #makePartitions(size: number): Promise<void> {
    if (size <= this.#partitioned) return;
    const { client, partitionEntries = PARTITION_ENTRIES } = this.#options;
    const { rows } = await client.query<{ until: string }>('select audit.extend($1, $2) as until', [
      size,
      partitionEntries,
    ]);
    this.#partitioned = Number(rows[0]?.until);
  }

  #keysOf(taken: readonly Waiting[]): ColdKeys {
    const requests = taken.map(({ request }) => request);
    const drafts = requests.flatMap((request) => request.entries);
    const streams = new Set(drafts.map((draft) => draft.stream));
    if (taken.some(({ freeze }) => freeze)) streams.add('freeze');
    return {
      calls: [...new Set(drafts.map((draft) => draft.callId).filter((id) => id !== ''))],
      entries: drafts.map((draft) => draft.id),
      streams: [...streams],
      documents: requests.flatMap((request) => [
        ...request.documents.map((draft) => `${draft.kind}/${draft.key}`),
        ...request.expected.map(({ kind, key }) => `${kind}/${key}`),
        ...(request.sessionVersion === 0n ? [] : [`session/${request.sessionId}`]),
        ...grantsOf(request).map((id) => `grant/${id}`),
      ]),
    };
  }

  /** INVARIANT: a data key is durable before a payload under it is; a session's first payload makes it. */
  async #ensureKeys(taken: readonly Waiting[]): Promise<void> {
    const sessions = new Set<string>();
    for (const { request } of taken) {
      if (request.call && request.call.sealedPayload.length > 0) sessions.add(request.call.sessionId);
      if (request.sealedResult.length === 0) continue;
      const callId = request.entries.find((draft) => draft.callId !== '')?.callId ?? '';
      sessions.add(this.#hot.calls.get(callId)?.record.sessionId ?? request.call?.sessionId ?? '');
    }
    for (const session of sessions) await this.#options.payloads.ensure(session);
  }

  /** Judges what waits, in arrival order, while the batch before it may still be on its way to the disk. */
  async #prepare(): Promise<Prepared> {
    const taken = this.#take();
    await loadCold(this.#options.loader, this.#hot.missing(this.#keysOf(taken)), this.#hot);
    await this.#ensureKeys(taken);
    this.#options.atStep('batch.loaded');
    const recordedMs = Math.max(this.#judged.recordedMs, this.#options.now());
    const building = new BatchBuilder(this.#options, this.#hot, { ...this.#judged, recordedMs });
    const replies = taken.map(({ request, freeze, isOwn }) =>
      freeze ? building.changeFreeze(freeze) : building.add(request, isOwn),
    );
    const batch = building.batch();
    this.#judged = { head: batch.head, recordedMs, freezes: building.freezes };
    return { taken, replies, batch, log: this.#judged };
  }

  /** INVARIANT: answers leave after the commit, also refusals: the winner that they name may be in the batch before. */
  async #commit({ taken, replies, batch, log }: Prepared): Promise<void> {
    this.#inFlight = taken.length;
    if (batch.entries.length > 0) {
      await this.#makePartitions(batch.head.size);
      this.#options.atStep('batch.judged');
      await commitBatch(this.#options.client, batch);
      this.#options.atStep('batch.committed');
      this.commits += 1;
      this.#log = log;
      for (const { record } of batch.calls) this.#options.revocations.note(record);
    }
    this.#inFlight = 0;
    taken.forEach(({ resolve }, at) => {
      const reply = replies[at];
      if (reply) resolve(reply);
    });
    this.#options.atStep('batch.answered');
  }
}
