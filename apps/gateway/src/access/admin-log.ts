import { randomBytes } from 'node:crypto';
import { FaultError, makeId } from '@countersign/kernel';
import { type DocumentDraft, ERROR_CODES } from '@countersign/protocol';
import type { AuditLog } from '../record/audit-log.ts';
import { json } from '../record/entries.ts';

/** One administrative act. `detail` holds no secret. */
export type AdminAct = {
  readonly what: string;
  readonly by: string;
  readonly detail: Readonly<Record<string, unknown>>;
};

/** A document that an act changes, with the version that it replaces. */
export type AdminChange = Pick<DocumentDraft, 'kind' | 'key' | 'expectedVersion'> & { readonly value: object };

/**
 * Records an administrative act together with what it changes. INVARIANT: nothing that an act allows holds before its entry
 * is durable. Rejects with a FaultError when the record refuses, among others because the document changed meanwhile.
 */
export async function recordAct(
  audit: AuditLog,
  act: AdminAct,
  nowMs: number,
  changes: readonly AdminChange[] = [],
): Promise<void> {
  const reply = await audit.append({
    entries: [
      {
        id: makeId('ent', nowMs, randomBytes),
        type: 'admin.changed',
        stream: 'admin',
        emittedMs: BigInt(nowMs),
        body: json({ detail: { what: act.what, by: act.by, ...act.detail } }),
      },
    ],
    documents: changes.map((change) => ({ ...change, value: json(change.value) })),
  });
  if (!reply.refusal) return;
  const changed = reply.refusal.code === ERROR_CODES.auditConflict;
  throw new FaultError(`the record refused \`${act.what}\`: ${reply.refusal.message}`, {
    code: changed ? ERROR_CODES.changedMeanwhile : ERROR_CODES.auditUnavailable,
    retryable: true,
  });
}
