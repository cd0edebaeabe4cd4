import { err, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES, type ErrorCode, type Heartbeat } from '@countersign/protocol';
import { z } from 'zod';
import type { AuditLog } from '../record/audit-log.ts';

/** The journal of a host as it was enrolled: with its first heartbeat, or by the operator who confirmed it last. */
const journalSchema = z.looseObject({ journalId: z.string(), createdAtMs: z.number(), entries: z.number() });
type Enrolled = z.infer<typeof journalSchema> & { readonly version: bigint };
type Told = Pick<Heartbeat, 'host' | 'journalId' | 'journalCreatedAtMs' | 'journalEntries'>;

const json = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));

/**
 * The journals of all hosts. INVARIANT: a host whose journal was lost or set back gets no work until an operator confirmed
 * it, because it would run again what the lost lines say it ran. The first journal of a host is taken as it is.
 */
export class Journals {
  readonly #audit: AuditLog;
  readonly #now: () => number;
  readonly #enrolled = new Map<string, Enrolled>();
  /** Most lines that the enrolled journal of a host was seen with. */
  readonly #furthest = new Map<string, bigint>();

  private constructor(audit: AuditLog, now: () => number) {
    this.#audit = audit;
    this.#now = now;
  }

  /** The journals as the record has them. */
  static async open(audit: AuditLog, now: () => number): Promise<Journals> {
    const journals = new Journals(audit, now);
    await journals.refresh();
    return journals;
  }

  /** Reads what is enrolled. */
  async refresh(): Promise<void> {
    for (const { key, value, version } of await this.#audit.listDocuments('journal')) {
      if (this.#enrolled.get(key)?.version === version) continue;
      const parsed = journalSchema.parse(JSON.parse(new TextDecoder().decode(value)));
      this.#enrolled.set(key, { ...parsed, version });
      this.#furthest.set(key, BigInt(parsed.entries));
    }
  }

  /** Id of the enrolled journal of a host. */
  enrolled(host: string): string | undefined {
    return this.#enrolled.get(host)?.journalId;
  }

  /** Notes how far a journal is. */
  take({ host, journalId, journalEntries }: Told): void {
    if (this.#enrolled.get(host)?.journalId !== journalId) return;
    if (journalEntries > (this.#furthest.get(host) ?? 0n)) this.#furthest.set(host, journalEntries);
  }

  /** Why the host gets no work; empty when its journal is the enrolled one, or none is enrolled yet. */
  fault({ host, journalId, journalEntries }: Told): string {
    const enrolled = this.#enrolled.get(host);
    const fix = `look at what ran there, then \`countersign runner confirm-journal ${host}\``;
    if (!enrolled) return '';
    if (enrolled.journalId !== journalId) return `the journal of this host is a new one; ${fix}`;
    const furthest = this.#furthest.get(host) ?? 0n;
    return journalEntries < furthest
      ? `the journal of this host was set back (${journalEntries} lines, it had ${furthest}); ${fix}`
      : '';
  }

  /** Enrols the first journals of hosts and reads again what another gateway enrolled. */
  async watch(heartbeats: readonly Told[]): Promise<void> {
    if (heartbeats.some((told) => this.fault(told) !== '' || !this.#enrolled.has(told.host))) await this.refresh();
    const first = heartbeats.filter(({ host, journalId }) => journalId !== '' && !this.#enrolled.has(host));
    for (const told of first) await this.#record(told, 'journal.enrolled', 'host');
    if (first.length > 0) await this.refresh();
  }

  /** Makes the journal that a host tells of now the enrolled one. */
  async confirm(told: Told, by: string): Promise<Result<undefined, { code: ErrorCode; message: string }>> {
    await this.refresh();
    if (this.fault(told) === '') {
      const message = `the journal of \`${told.host}\` is the enrolled one; nothing is to be confirmed`;
      return err({ code: ERROR_CODES.invalidRequest, message });
    }
    const refusal = await this.#record(told, 'journal.confirmed', by);
    if (refusal !== undefined) return err({ code: ERROR_CODES.invalidRequest, message: refusal });
    await this.refresh();
    return ok(undefined);
  }

  async #record(told: Told, type: string, by: string): Promise<string | undefined> {
    const nowMs = this.#now();
    const { host, journalId, journalCreatedAtMs, journalEntries } = told;
    const expectedVersion = this.#enrolled.get(host)?.version ?? 0n;
    const value = {
      journalId,
      createdAtMs: Number(journalCreatedAtMs),
      entries: Number(journalEntries),
      by,
      atMs: nowMs,
    };
    const reply = await this.#audit.append({
      entries: [
        {
          id: `ent_journal_${host}_${expectedVersion + 1n}`,
          type,
          stream: `host.${host}`,
          emittedMs: BigInt(nowMs),
          body: json({ host, detail: { journal: journalId, entries: value.entries, by } }),
        },
      ],
      documents: [{ kind: 'journal', key: host, value: json(value), expectedVersion }],
    });
    return reply.refusal?.message;
  }
}
