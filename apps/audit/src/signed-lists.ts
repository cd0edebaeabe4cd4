import { type KnownRoster, openApproverList, subjects } from '@countersign/protocol';
import type { NatsConnection } from '@countersign/service-kit';
import type pg from 'pg';

/** Beats between two publications of a list that did not change, for members that came later. */
const REPEAT_BEATS = 5;

/** What the beat says of the lists that the organisation root signs. */
export type ListVersions = { readonly rosterVersion: number; readonly approversVersion: number };

type Row = { readonly kind: string; readonly signed: string };

const QUERY =
  "select kind, value->>'signed' as signed from audit.document where kind in ('roster', 'approver_list') and key = 'current'";

/**
 * Carries roster and approver list from the record to every member. INVARIANT: a version never goes back here, and only what
 * the root signed is carried; members verify it again.
 */
export class SignedLists {
  readonly #reader: pg.Pool;
  readonly #roster: KnownRoster;
  readonly #rootKey: string;
  #approvers: { readonly version: number; readonly signed: Uint8Array } | undefined;
  #beats = 0;
  #told = '';

  constructor(options: { reader: pg.Pool; roster: KnownRoster; rootKey: string }) {
    this.#reader = options.reader;
    this.#roster = options.roster;
    this.#rootKey = options.rootKey;
  }

  get versions(): ListVersions {
    return { rosterVersion: this.#roster.version, approversVersion: this.#approvers?.version ?? 0 };
  }

  /** Reads what is in force. Rejects when the database cannot be read; what was known stays. */
  async refresh(): Promise<void> {
    const { rows } = await this.#reader.query<Row>(QUERY);
    for (const { kind, signed } of rows) {
      const bytes = new Uint8Array(Buffer.from(signed ?? '', 'base64'));
      if (kind === 'roster') this.#roster.take(bytes);
      else this.#takeApprovers(bytes);
    }
  }

  /** Publishes both lists when one is new, and every few calls. */
  publish(nats: NatsConnection): void {
    const now = JSON.stringify(this.versions);
    const isDue = now !== this.#told || this.#beats % REPEAT_BEATS === 0;
    this.#beats += 1;
    if (!isDue) return;
    this.#told = now;
    nats.publish(subjects.roster(), this.#roster.signed);
    if (this.#approvers) nats.publish(subjects.approvers(), this.#approvers.signed);
  }

  #takeApprovers(signed: Uint8Array): void {
    const opened = openApproverList(signed, this.#rootKey);
    if (!opened.ok || opened.value.version <= (this.#approvers?.version ?? 0)) return;
    this.#approvers = { version: opened.value.version, signed };
  }
}
