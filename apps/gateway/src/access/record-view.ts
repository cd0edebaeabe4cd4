import type { z } from 'zod';
import type { AuditLog } from '../record/audit-log.ts';

export type Versioned<T> = { readonly value: T; readonly version: bigint };

/**
 * Documents of one kind, read from the record. SECURITY: what is older than `maxAgeMs` is read again before it is used, so
 * that a revocation at one gateway holds at every other one within that time; without the record nothing is answered.
 */
export class RecordView<T> {
  readonly #audit: AuditLog;
  readonly #kind: string;
  readonly #schema: z.ZodType<T>;
  readonly #maxAgeMs: number;
  readonly #now: () => number;
  #known = new Map<string, Versioned<T>>();
  #readAtMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;

  constructor(options: {
    audit: AuditLog;
    kind: string;
    schema: z.ZodType<T>;
    now: () => number;
    maxAgeMs?: number;
  }) {
    this.#audit = options.audit;
    this.#kind = options.kind;
    this.#schema = options.schema;
    this.#now = options.now;
    this.#maxAgeMs = options.maxAgeMs ?? 3_000;
  }

  /** All documents by key, not older than the limit. Rejects when the record cannot be read. */
  async all(): Promise<ReadonlyMap<string, Versioned<T>>> {
    const ageMs = this.#now() - this.#readAtMs;
    // A clock that was set back says nothing about the age.
    if (ageMs > this.#maxAgeMs || ageMs < 0) await this.#read();
    return this.#known;
  }

  async find(key: string): Promise<Versioned<T> | undefined> {
    return (await this.all()).get(key);
  }

  /** Makes the next use read again. */
  expire(): void {
    this.#readAtMs = Number.NEGATIVE_INFINITY;
  }

  #read(): Promise<void> {
    this.#reading ??= this.#load().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #load(): Promise<void> {
    const startedMs = this.#now();
    const documents = await this.#audit.listDocuments(this.#kind);
    const known = new Map<string, Versioned<T>>();
    for (const { key, version, value } of documents) {
      const parsed = this.#schema.safeParse(JSON.parse(new TextDecoder().decode(value)));
      if (parsed.success) known.set(key, { value: parsed.data, version });
    }
    this.#known = known;
    this.#readAtMs = startedMs;
  }
}
