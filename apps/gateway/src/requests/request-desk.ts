import { randomBytes } from 'node:crypto';
import { makeId } from '@countersign/kernel';
import type { DocumentDraft, EntryDraft as Draft } from '@countersign/protocol';
import { RecordView, type Versioned } from '../access/record-view.ts';
import type { AuditLog } from '../record/audit-log.ts';
import { json } from '../record/entries.ts';
import { type PermissionRequest, requestSchema } from './request.ts';

const KIND = 'request';

/** What a change of a request is recorded as. */
export type RequestStep = {
  readonly what: `permission.${'requested' | 'approved' | 'denied' | 'expired' | 'cancelled'}`;
  readonly by: string;
  /** Lines of what is asked or changes; masked. */
  readonly says: readonly string[];
};

/** An entry that belongs to no call. */
type EntryDraft = Pick<Draft, 'id' | 'type' | 'stream' | 'emittedMs' | 'body'>;

/** Entries and documents that go with the change of a request, in the same commit. */
export type Together = {
  readonly entries?: readonly EntryDraft[];
  readonly documents?: readonly DocumentDraft[];
  readonly expected?: readonly { kind: string; key: string; version: bigint }[];
};

/** Requests of agents for a person, as the record has them. */
export class RequestDesk {
  readonly #audit: AuditLog;
  readonly #now: () => number;
  readonly #view: RecordView<PermissionRequest>;

  constructor(audit: AuditLog, now: () => number) {
    this.#audit = audit;
    this.#now = now;
    this.#view = new RecordView({ audit, kind: KIND, schema: requestSchema, now, maxAgeMs: 1_000 });
  }

  /** One request as the record has it now. */
  async find(id: string): Promise<Versioned<PermissionRequest> | undefined> {
    const [document] = await this.#audit.listDocuments(KIND, id);
    const parsed = document && requestSchema.safeParse(JSON.parse(new TextDecoder().decode(document.value)));
    return parsed?.success ? { value: parsed.data, version: document?.version ?? 0n } : undefined;
  }

  /** Every request, newest first; at most a second old. */
  async all(): Promise<PermissionRequest[]> {
    return [...(await this.#view.all()).values()].map(({ value }) => value).sort((a, b) => b.at_ms - a.at_ms);
  }

  async waiting(): Promise<PermissionRequest[]> {
    return (await this.all()).filter(({ state }) => state === 'waiting');
  }

  /** Makes the next list read again. */
  expire(): void {
    this.#view.expire();
  }

  /**
   * Records a request, or its one end, together with what the end changes. False when something of it changed meanwhile: then
   * nothing was recorded.
   */
  async record(request: PermissionRequest, version: bigint, step: RequestStep, also: Together = {}): Promise<boolean> {
    const nowMs = this.#now();
    const { id, agent, host, kind, reason } = request;
    const session = kind === 'update' ? { session: request.session } : {};
    const detail = { what: step.what, request: id, by: step.by, agent, host, ...session, says: step.says, reason };
    const reply = await this.#audit.append({
      entries: [
        {
          id: makeId('ent', nowMs, randomBytes),
          type: 'admin.changed',
          stream: 'admin',
          emittedMs: BigInt(nowMs),
          body: json({ detail: { ...detail, ...(request.answer ? { answer: request.answer } : {}) } }),
        },
        ...(also.entries ?? []),
      ],
      documents: [{ kind: KIND, key: id, value: json(request), expectedVersion: version }, ...(also.documents ?? [])],
      ...(also.expected ? { expected: [...also.expected] } : {}),
    });
    this.expire();
    return reply.refusal === undefined;
  }
}
