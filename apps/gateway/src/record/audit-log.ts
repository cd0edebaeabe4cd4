import { err, FaultError, ok, type Result } from '@countersign/kernel';
import {
  type AppendReply,
  AppendRequest,
  AuditClient,
  type CallRecord,
  type ClearFreezeRequest,
  type ConfirmFreezeRequest,
  type Document,
  ERROR_CODES,
  type ExportChunk,
  type FreezeState,
  type GetPayloadReply,
  type ListCallsReply,
  type ListDocumentsReply,
  type Receipt,
  type SetFreezeRequest,
} from '@countersign/protocol';
import { type ClientTls, grpcClient } from '@countersign/service-kit';
import { type ClientDuplexStream, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import type { ClockWatch } from './clock-watch.ts';
import { EvidenceLog } from './evidence-log.ts';

const DEADLINE_MS = 10_000;
const RECONNECT_MS = 250;
const MAX_IN_FLIGHT = 5_000;

type Append = Omit<Parameters<typeof AppendRequest.fromPartial>[0] & object, 'requestId'>;
type InFlight = {
  readonly request: AppendRequest;
  readonly resolve: (reply: AppendReply) => void;
  readonly reject: (error: Error) => void;
  readonly deadlineMs: number;
};

const unavailable = (cause?: unknown): FaultError =>
  new FaultError('the record cannot be reached; nothing was done', {
    code: ERROR_CODES.auditUnavailable,
    retryable: true,
    cause,
  });

/** Why a freeze was not changed. */
export type FreezeRefusal = { readonly kind: 'not_found' | 'invalid'; readonly message: string };

/**
 * The gateway's line to the record. Appends travel on one kept stream; after a break the same requests are sent again,
 * which is safe because entry ids make a replay answer with the first receipt.
 */
export class AuditLog {
  /** What auditors ask, on a line of its own. */
  readonly evidence: EvidenceLog;
  readonly #client: AuditClient;
  readonly #inFlight = new Map<bigint, InFlight>();
  #stream: ClientDuplexStream<AppendRequest, AppendReply> | undefined;
  #lastId = 0n;
  #closed = false;
  readonly #sweep: NodeJS.Timeout;
  readonly #clock: ClockWatch | undefined;

  readonly #count: (rpc: string) => void;

  /** `count` is told the name of each request as it leaves. While `clock` is off nothing is recorded. */
  constructor(address: string, count: (rpc: string) => void, tls?: ClientTls, clock?: ClockWatch) {
    this.#clock = clock;
    this.#count = count;
    this.#client = grpcClient(AuditClient, address, tls);
    this.evidence = new EvidenceLog(address, count, tls);
    this.#sweep = setInterval(() => this.#expire(), 1_000);
  }

  /**
   * Records a request or tells why not (`refusal`). Rejects with a retryable FaultError when no answer came in 10 s. SECURITY:
   * what was judged by a clock that is off is not recorded, so that nothing expired, or not yet valid, takes effect.
   */
  append(append: Append): Promise<AppendReply> {
    if (this.#clock && !this.#clock.isRight()) return Promise.reject(this.#clock.fault());
    if (this.#inFlight.size >= MAX_IN_FLIGHT) return Promise.reject(unavailable());
    this.#lastId += 1n;
    const request = AppendRequest.fromPartial({ ...append, requestId: this.#lastId });
    return new Promise((resolve, reject) => {
      this.#count('append');
      this.#inFlight.set(request.requestId, { request, resolve, reject, deadlineMs: Date.now() + DEADLINE_MS });
      if (this.#stream) this.#stream.write(request);
      else this.#open();
    });
  }

  /** State of a call; undefined when there is none. An empty `agent` matches every agent. */
  async getCall(agent: string, callId: string): Promise<CallRecord | undefined> {
    return this.#read('getCall', (done) =>
      this.#client.getCall({ agent, callId }, new Metadata(), this.#options(), done),
    );
  }

  async listCalls(states: readonly string[], limit: number, pageToken = '', sessionId = ''): Promise<ListCallsReply> {
    const request = { states: [...states], sessionId, limit, pageToken };
    const found = await this.#read<ListCallsReply>('listCalls', (done) =>
      this.#client.listCalls(request, new Metadata(), this.#options(), done),
    );
    return found ?? { calls: [], nextPageToken: '' };
  }

  /** Every document of a kind, or the one with a key, page by page in the order of keys. */
  async listDocuments(kind: string, key = ''): Promise<readonly Document[]> {
    const documents: Document[] = [];
    let afterKey = '';
    do {
      const request = { kind, key, afterKey };
      const page = await this.#read<ListDocumentsReply>('listDocuments', (done) =>
        this.#client.listDocuments(request, new Metadata(), this.#options(), done),
      );
      documents.push(...(page?.documents ?? []));
      afterKey = page?.nextKey ?? '';
    } while (afterKey !== '');
    return documents;
  }

  setFreeze(request: SetFreezeRequest): Promise<Result<FreezeState, FreezeRefusal>> {
    return this.#freeze('setFreeze', (done) => this.#client.setFreeze(request, new Metadata(), this.#options(), done));
  }

  clearFreeze(request: ClearFreezeRequest): Promise<Result<FreezeState, FreezeRefusal>> {
    return this.#freeze('clearFreeze', (done) =>
      this.#client.clearFreeze(request, new Metadata(), this.#options(), done),
    );
  }

  confirmFreeze(request: ConfirmFreezeRequest): Promise<Result<FreezeState, FreezeRefusal>> {
    return this.#freeze('confirmFreeze', (done) =>
      this.#client.confirmFreeze(request, new Metadata(), this.#options(), done),
    );
  }

  async getFreeze(): Promise<FreezeState> {
    const state = await this.#freeze('getFreeze', (done) =>
      this.#client.getFreeze({}, new Metadata(), this.#options(), done),
    );
    if (state.ok) return state.value;
    throw unavailable();
  }

  /** How often a grant decided, as the record counts. */
  async usesOf(grant: string): Promise<number> {
    const [document] = await this.listDocuments('grant', grant);
    if (!document) return 0;
    return Number((JSON.parse(new TextDecoder().decode(document.value)) as { uses?: number }).uses ?? 0);
  }

  /** Receipt of a dispatched call; undefined when nothing was dispatched. */
  getReceipt(callId: string): Promise<Receipt | undefined> {
    return this.#read('getReceipt', (done) =>
      this.#client.getReceipt({ callId }, new Metadata(), this.#options(), done),
    );
  }

  /** Sealed arguments and result of a call; undefined when there is no such call. INVARIANT: `reader`'s reading is an entry first. */
  getPayload(callId: string, reader: string): Promise<GetPayloadReply | undefined> {
    return this.#read('getPayload', (done) =>
      this.#client.getPayload({ callId, reader }, new Metadata(), this.#options(), done),
    );
  }

  /** Every leaf, then the checkpoint that covers them. */
  exportLog(): AsyncIterable<ExportChunk> {
    this.#count('export');
    return this.#client.export({}) as AsyncIterable<ExportChunk>;
  }

  /** The database's clock, milliseconds since the Unix epoch. */
  async databaseMs(): Promise<number> {
    const found = await this.#read<{ databaseMs: bigint }>('getTime', (done) =>
      this.#client.getTime({}, new Metadata(), this.#options(), done),
    );
    if (!found) throw unavailable();
    return Number(found.databaseMs);
  }

  /** True when the record answers. */
  async isReady(): Promise<boolean> {
    return this.#read<{ checkpoint: string }>('getCheckpoint', (done) =>
      this.#client.getCheckpoint({}, new Metadata(), this.#options(), done),
    ).then(
      () => true,
      () => false,
    );
  }

  close(): void {
    this.#closed = true;
    clearInterval(this.#sweep);
    this.#stream?.end();
    this.#client.close();
    this.evidence.close();
    for (const { reject } of this.#inFlight.values()) reject(unavailable());
    this.#inFlight.clear();
  }

  #options(): { deadline: number } {
    return { deadline: Date.now() + DEADLINE_MS };
  }

  #read<T>(rpc: string, start: (done: (error: ServiceError | null, value: T) => void) => void): Promise<T | undefined> {
    this.#count(rpc);
    return new Promise((resolve, reject) => {
      start((error, value) => {
        if (!error) resolve(value);
        else if (error.code === status.NOT_FOUND) resolve(undefined);
        else reject(unavailable(error));
      });
    });
  }

  #freeze(
    rpc: string,
    start: (done: (error: ServiceError | null, value: FreezeState) => void) => void,
  ): Promise<Result<FreezeState, FreezeRefusal>> {
    this.#count(rpc);
    return new Promise((resolve, reject) => {
      start((error, value) => {
        if (!error) resolve(ok(value));
        else if (error.code === status.NOT_FOUND) resolve(err({ kind: 'not_found', message: error.details }));
        else if (error.code === status.INVALID_ARGUMENT || error.code === status.FAILED_PRECONDITION)
          resolve(err({ kind: 'invalid', message: error.details }));
        else reject(unavailable(error));
      });
    });
  }

  #open(): void {
    if (this.#closed || this.#stream) return;
    const stream = this.#client.append();
    this.#stream = stream;
    const broken = () => {
      if (this.#stream !== stream) return;
      this.#stream = undefined;
      if (this.#inFlight.size > 0) setTimeout(() => this.#open(), RECONNECT_MS).unref();
    };
    stream.on('data', (reply: AppendReply) => {
      this.#inFlight.get(reply.requestId)?.resolve(reply);
      this.#inFlight.delete(reply.requestId);
    });
    stream.on('error', broken);
    stream.on('end', broken);
    for (const { request } of this.#inFlight.values()) stream.write(request);
  }

  #expire(): void {
    const now = Date.now();
    for (const [id, waiting] of this.#inFlight) {
      if (waiting.deadlineMs > now) continue;
      this.#inFlight.delete(id);
      waiting.reject(unavailable());
    }
  }
}
