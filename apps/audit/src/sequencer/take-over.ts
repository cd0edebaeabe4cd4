import { FaultError } from '@countersign/kernel';
import { CallRecord, ERROR_CODES } from '@countersign/protocol';
import type pg from 'pg';
import type { FreezeState } from '../freeze/freeze-state.ts';
import { Revocations } from '../freeze/revocations.ts';
import type { LogState } from './batch-builder.ts';

type HeadRow = { epoch: string; next_index: string; freeze_epoch: string; stack: Buffer[]; recorded_ms: string };
type FreezeRow = {
  epoch: string;
  scope: string;
  reason: string;
  subject: string;
  stop_running: boolean;
  set_ms: string;
};
type ConfirmationRow = { host: string; epoch: string; running: number; confirmed_ms: string };

async function loadFreezes(client: pg.ClientBase, epoch: bigint): Promise<FreezeState> {
  const freezes = await client.query<FreezeRow>(
    'select epoch, scope, reason, subject, stop_running, set_ms from audit.freeze where cleared_epoch is null',
  );
  const hosts = await client.query<ConfirmationRow>(
    'select host, epoch, running, confirmed_ms from audit.freeze_confirmation',
  );
  return {
    epoch,
    freezes: new Map(
      freezes.rows.map((row) => [
        row.scope,
        {
          scope: row.scope,
          epoch: BigInt(row.epoch),
          reason: row.reason,
          subject: row.subject,
          stopRunning: row.stop_running,
          setMs: BigInt(row.set_ms),
        },
      ]),
    ),
    confirmations: new Map(
      hosts.rows.map((row) => [
        row.host,
        { host: row.host, epoch: BigInt(row.epoch), running: row.running, confirmedMs: BigInt(row.confirmed_ms) },
      ]),
    ),
  };
}

async function loadRevocations(client: pg.ClientBase): Promise<Revocations> {
  const { rows } = await client.query<{ record: Buffer }>(
    "select record from audit.call where state in ('dispatched', 'running', 'backgrounded')",
  );
  const revocations = new Revocations();
  for (const row of rows) revocations.note(CallRecord.decode(row.record));
  return revocations;
}

/** Takes the log over: a higher epoch, so that whoever wrote before can commit nothing more; then reads what it holds. */
export async function takeOver(
  client: pg.ClientBase,
): Promise<{ epoch: bigint; log: LogState; revocations: Revocations }> {
  const { rows } = await client.query<HeadRow>(
    'update audit.head set epoch = epoch + 1 returning epoch, next_index, freeze_epoch, stack, recorded_ms',
  );
  const row = rows[0];
  if (!row)
    throw new FaultError('the log has no head row; restore it from a backup', { code: ERROR_CODES.auditNoHead });
  const head = { size: Number(row.next_index), stack: row.stack };
  const freezes = await loadFreezes(client, BigInt(row.freeze_epoch));
  const log = { head, recordedMs: Number(row.recorded_ms), freezes };
  return { epoch: BigInt(row.epoch), log, revocations: await loadRevocations(client) };
}
