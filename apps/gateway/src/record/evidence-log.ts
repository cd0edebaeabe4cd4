import { err, FaultError, ok, type Result } from '@countersign/kernel';
import {
  type AddCosignaturesReply,
  type ApplyRetentionReply,
  type AskReply,
  AskRequest,
  type CheckDatabaseReport,
  CustodyClient,
  ERROR_CODES,
  type EraseReply,
  EvidenceClient,
  type HoldList,
  type ListCheckpointsReply,
  type ListStreamsReply,
  type ProveCallReply,
  type ProveConsistencyReply,
  type ProveInclusionReply,
} from '@countersign/protocol';
import { type ClientTls, grpcClient } from '@countersign/service-kit';
import { Metadata, type ServiceError, status } from '@grpc/grpc-js';

const DEADLINE_MS = 40_000;

/** Why the record has no answer: there is no such thing, or the question is wrong. */
export type EvidenceRefusal = { readonly code: 'not_found' | 'invalid' | 'refused'; readonly message: string };
/** A scope of the record, and who wants what with it and why. */
export type CustodyWish = { readonly scope: string; readonly reason: string; readonly subject: string };
type Answer<T> = Promise<Result<T, EvidenceRefusal>>;

const REFUSALS: ReadonlyMap<status, EvidenceRefusal['code']> = new Map([
  [status.NOT_FOUND, 'not_found'],
  [status.INVALID_ARGUMENT, 'invalid'],
  [status.OUT_OF_RANGE, 'invalid'],
  [status.FAILED_PRECONDITION, 'refused'],
]);

/** The gateway's line to what an auditor asks. Rejects with a retryable FaultError when the record does not answer. */
export class EvidenceLog {
  readonly #client: EvidenceClient;
  readonly #custody: CustodyClient;
  readonly #count: (rpc: string) => void;

  constructor(address: string, count: (rpc: string) => void, tls?: ClientTls) {
    this.#client = grpcClient(EvidenceClient, address, tls);
    this.#custody = grpcClient(CustodyClient, address, tls);
    this.#count = count;
  }

  proveInclusion(indexes: readonly number[]): Answer<ProveInclusionReply> {
    const request = { logIndexes: indexes.map(BigInt) };
    return this.#ask('proveInclusion', (done) =>
      this.#client.proveInclusion(request, new Metadata(), deadline(), done),
    );
  }

  /** `to` 0 takes the present size. */
  proveConsistency(from: number, to: number): Answer<ProveConsistencyReply> {
    const request = { oldSize: BigInt(from), newSize: BigInt(to) };
    return this.#ask('proveConsistency', (done) =>
      this.#client.proveConsistency(request, new Metadata(), deadline(), done),
    );
  }

  proveCall(callId: string): Answer<ProveCallReply> {
    return this.#ask('proveCall', (done) => this.#client.proveCall({ callId }, new Metadata(), deadline(), done));
  }

  ask(
    question: string,
    filters: Readonly<Record<string, string>>,
    page: { readonly limit: number; readonly pageToken: string },
  ): Answer<AskReply> {
    const request = AskRequest.fromPartial({ question, filters: { ...filters }, ...page });
    return this.#ask('ask', (done) => this.#client.ask(request, new Metadata(), deadline(), done));
  }

  listCheckpoints(limit: number, before: number): Answer<ListCheckpointsReply> {
    const request = { limit, beforeSize: BigInt(before) };
    return this.#ask('listCheckpoints', (done) =>
      this.#client.listCheckpoints(request, new Metadata(), deadline(), done),
    );
  }

  addCosignatures(note: string): Answer<AddCosignaturesReply> {
    return this.#ask('addCosignatures', (done) =>
      this.#client.addCosignatures({ note }, new Metadata(), deadline(), done),
    );
  }

  listStreams(): Answer<ListStreamsReply> {
    return this.#ask('listStreams', (done) => this.#client.listStreams({}, new Metadata(), deadline(), done));
  }

  listHolds(): Answer<HoldList> {
    return this.#ask('listHolds', (done) => this.#custody.listHolds({}, new Metadata(), deadline(), done));
  }

  setHold(wish: CustodyWish): Answer<HoldList> {
    return this.#ask('setHold', (done) => this.#custody.setHold(wish, new Metadata(), deadline(), done));
  }

  releaseHold(wish: CustodyWish): Answer<HoldList> {
    return this.#ask('releaseHold', (done) => this.#custody.releaseHold(wish, new Metadata(), deadline(), done));
  }

  /** Destroys the payload keys of a scope. */
  erase(wish: CustodyWish): Answer<EraseReply> {
    return this.#ask('erase', (done) => this.#custody.erase(wish, new Metadata(), deadline(), done));
  }

  /** Ends, or with `apply` false only counts, what is past its time. */
  applyRetention(apply: boolean, subject: string): Answer<ApplyRetentionReply> {
    return this.#ask('applyRetention', (done) =>
      this.#custody.applyRetention({ apply, subject }, new Metadata(), deadline(), done),
    );
  }

  /** The check of the database, as it goes on. */
  checkDatabase(): AsyncIterable<CheckDatabaseReport> {
    this.#count('checkDatabase');
    return this.#client.checkDatabase({}) as AsyncIterable<CheckDatabaseReport>;
  }

  close(): void {
    this.#client.close();
    this.#custody.close();
  }

  #ask<T>(rpc: string, start: (done: (error: ServiceError | null, value: T) => void) => void): Answer<T> {
    this.#count(rpc);
    return new Promise((resolve, reject) => {
      start((error, value) => {
        const code = error && REFUSALS.get(error.code);
        if (!error) resolve(ok(value));
        else if (code) resolve(err({ code, message: error.details }));
        else {
          const fault = { code: ERROR_CODES.auditUnavailable, retryable: true, cause: error };
          reject(new FaultError('the record does not answer the question; ask again', fault));
        }
      });
    });
  }
}

const deadline = (): { deadline: number } => ({ deadline: Date.now() + DEADLINE_MS });
