import type { AtStep } from '@countersign/kernel';
import type { TreeHead } from '@countersign/merkle';
import { replaceFile } from '@countersign/service-kit';
import type pg from 'pg';
import type { AuditStep } from './audit-step.ts';

/** A checkpoint that the database holds. */
export type StoredCheckpoint = { readonly size: number; readonly note: string };

/** Stores checkpoints of the log as it grows. */
export class CheckpointStore {
  readonly #client: pg.Client;
  readonly #head: () => TreeHead;
  readonly #sign: (head: TreeHead) => string;
  readonly #atStep: AtStep<AuditStep>;
  readonly #file: string | undefined;
  #newest: StoredCheckpoint = { size: 0, note: '' };

  constructor(options: {
    readonly client: pg.Client;
    readonly head: () => TreeHead;
    readonly sign: (head: TreeHead) => string;
    readonly atStep: AtStep<AuditStep>;
    /** Where the newest one is kept outside of the database. */
    readonly file: string | undefined;
  }) {
    this.#client = options.client;
    this.#head = options.head;
    this.#sign = options.sign;
    this.#atStep = options.atStep;
    this.#file = options.file;
  }

  /** The newest one that was stored; size 0 before the first. What hosts are shown is never ahead of the database. */
  get newest(): StoredCheckpoint {
    return this.#newest;
  }

  /** Stores the checkpoint of the present head when the log has grown. Rejects when the database does not take it. */
  async store(): Promise<void> {
    const head = this.#head();
    if (head.size === this.#newest.size) return;
    const note = this.#sign(head);
    this.#atStep('checkpoint.signed');
    await this.#client.query('insert into audit.checkpoint values ($1, $2) on conflict (size) do nothing', [
      head.size,
      note,
    ]);
    this.#atStep('checkpoint.stored');
    if (this.#file !== undefined) replaceFile(this.#file, note);
    this.#newest = { size: head.size, note };
  }
}
