import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { recordAct } from '../access/admin-log.ts';
import { groupsSchema, nameSchema } from '../access/principal.ts';
import { RecordView } from '../access/record-view.ts';
import type { AuditLog } from '../record/audit-log.ts';

const DELEGATION = 'delegation';

const delegationSchema = z.object({
  id: z.string(),
  giver: nameSchema,
  receiver: nameSchema,
  groups: groupsSchema,
  from_ms: z.number(),
  until_ms: z.number(),
  revoked_ms: z.number().nullable(),
});

/** One person lets another decide for him in some of his groups, for a time. Never passed on. */
export type Delegation = z.infer<typeof delegationSchema>;
export type NewDelegation = Pick<Delegation, 'giver' | 'receiver' | 'groups' | 'until_ms'>;

/** Delegations, kept in the record. */
export class Delegations {
  readonly #audit: AuditLog;
  readonly #now: () => number;
  readonly #known: RecordView<Delegation>;

  constructor(audit: AuditLog, now: () => number) {
    this.#audit = audit;
    this.#now = now;
    this.#known = new RecordView({ audit, kind: DELEGATION, schema: delegationSchema, now });
  }

  /** Delegations that hold now, newest first. */
  async live(): Promise<Delegation[]> {
    const nowMs = this.#now();
    return [...(await this.#known.all()).values()]
      .map(({ value }) => value)
      .filter(({ from_ms, until_ms, revoked_ms }) => revoked_ms === null && from_ms <= nowMs && nowMs < until_ms)
      .sort((left, right) => right.from_ms - left.from_ms);
  }

  async give(wanted: NewDelegation): Promise<Delegation> {
    const nowMs = this.#now();
    const id = `dlg_${randomBytes(16).toString('hex')}`;
    const value: Delegation = { ...wanted, id, from_ms: nowMs, revoked_ms: null };
    const { giver, receiver, groups, until_ms } = value;
    const detail = { delegation: id, giver, receiver, groups, until_ms };
    await recordAct(this.#audit, { what: 'delegation.given', by: giver, detail }, nowMs, [
      { kind: DELEGATION, key: id, expectedVersion: 0n, value },
    ]);
    this.#known.expire();
    return value;
  }

  /** Ends a delegation. False when `by` is neither its giver nor `mayAll`. */
  async revoke(id: string, by: string, mayAll: boolean): Promise<boolean> {
    this.#known.expire();
    const known = await this.#known.find(id);
    if (!known || !(mayAll || known.value.giver === by)) return false;
    if (known.value.revoked_ms !== null) return true;
    const nowMs = this.#now();
    await recordAct(this.#audit, { what: 'delegation.revoked', by, detail: { delegation: id } }, nowMs, [
      { kind: DELEGATION, key: id, expectedVersion: known.version, value: { ...known.value, revoked_ms: nowMs } },
    ]);
    this.#known.expire();
    return true;
  }
}
