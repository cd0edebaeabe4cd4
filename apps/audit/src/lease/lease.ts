import { setTimeout as delay } from 'node:timers/promises';
import { FaultError } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';
import pg from 'pg';
import { connectWriter } from '../db/connection.ts';

const POLL_MS = 250;
/** How long a terminated backend may take to go. */
const TERMINATE_MS = 5_000;

/** The right to write, while it is renewed. */
export type Lease = {
  /** The connection that holds the lease; its backend is what a successor terminates. */
  readonly writer: pg.Client;
  /** Rejects when another process holds the lease, or the database does not answer. */
  readonly renew: () => Promise<void>;
  /** Gives the lease up, so that a standby need not wait for its end. */
  readonly release: () => Promise<void>;
};

export type LeaseOptions = {
  readonly databaseUrl: string;
  /** Name of this process, for operators. */
  readonly holder: string;
  /** How long the lease lasts without a renewal. */
  readonly ttlMs: number;
  /** Ends the wait. */
  readonly stopping: AbortSignal;
  /** Told when a connection breaks while the lease is held. */
  readonly onLost: (error: Error) => void;
  /** Told once when another process holds the lease. */
  readonly onStandby: (holder: string) => void;
};

type LeaseRow = { term: string; holder: string; pid: number | null; lapsed: boolean; alive: boolean };

const READ = `
select term, holder, l.pid, expires_at < clock_timestamp() as lapsed, a.pid is not null as alive
from audit.lease l left join pg_stat_activity a on a.pid = l.pid and a.backend_start = l.backend_start`;

/**
 * SECURITY: the recorded backend is compared by its start as well as its number, so that no other one is ever ended. A leader
 * that was stopped keeps its locks for ever; one whose backend is gone cannot write any more and need not be waited for.
 */
async function endPredecessor(keeper: pg.Client, row: LeaseRow): Promise<void> {
  if (!row.alive) return;
  const { rows } = await keeper.query<{ gone: boolean }>('select pg_terminate_backend($1, $2) as gone', [
    row.pid,
    TERMINATE_MS,
  ]);
  if (rows[0]?.gone !== true)
    throw new FaultError('the old writer of the log could not be ended', { code: ERROR_CODES.auditOldWriter });
}

/** Takes the lease when it is free; undefined when another was faster or holds it. */
async function tryTake(
  keeper: pg.Client,
  options: LeaseOptions,
): Promise<{ writer: pg.Client; term: string } | string> {
  const row = (await keeper.query<LeaseRow>(READ)).rows[0];
  if (!row)
    throw new FaultError('the log has no lease row; restore it from a backup', { code: ERROR_CODES.auditNoHead });
  if (row.alive && !row.lapsed) return row.holder;
  await endPredecessor(keeper, row);
  const writer = await connectWriter(options.databaseUrl, options.onLost);
  const pid = (await writer.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]?.pid;
  const taken = await keeper.query<{ term: string }>(
    `update audit.lease set term = term + 1, holder = $1, pid = $2, expires_at = clock_timestamp() + $3 * interval '1 millisecond',
       backend_start = (select backend_start from pg_stat_activity where pid = $2) where term = $4 returning term`,
    [options.holder, pid, options.ttlMs, row.term],
  );
  const term = taken.rows[0]?.term;
  if (term !== undefined) return { writer, term };
  await writer.end();
  return 'another process';
}

async function connectKeeper(options: LeaseOptions): Promise<pg.Client> {
  const keeper = new pg.Client({
    connectionString: options.databaseUrl,
    application_name: 'countersign-audit-lease',
    options: '-c synchronous_commit=off -c statement_timeout=10000',
  });
  keeper.on('error', options.onLost);
  await keeper.connect();
  return keeper;
}

/**
 * Waits until this process may write, and takes the lease. Undefined when `stopping` came first. On return the backend of the
 * writer before is gone; the caller raises the log's epoch next, before it reads anything.
 */
export async function waitForLease(options: LeaseOptions): Promise<Lease | undefined> {
  const keeper = await connectKeeper(options);
  let told = false;
  while (!options.stopping.aborted) {
    const taken = await tryTake(keeper, options);
    if (typeof taken !== 'string') return held(keeper, taken.writer, taken.term, options.ttlMs);
    if (!told) options.onStandby(taken);
    told = true;
    await delay(POLL_MS, undefined, { signal: options.stopping }).catch(() => undefined);
  }
  await keeper.end();
  return undefined;
}

function held(keeper: pg.Client, writer: pg.Client, term: string, ttlMs: number): Lease {
  return {
    writer,
    renew: async () => {
      const { rowCount } = await keeper.query(
        "update audit.lease set expires_at = clock_timestamp() + $1 * interval '1 millisecond' where term = $2",
        [ttlMs, term],
      );
      if (rowCount !== 1)
        throw new FaultError('another process writes the log now', { code: ERROR_CODES.auditLeaseLost });
    },
    release: async () => {
      await keeper.query("update audit.lease set expires_at = '-infinity', pid = null, holder = '' where term = $1", [
        term,
      ]);
      await keeper.end();
    },
  };
}
