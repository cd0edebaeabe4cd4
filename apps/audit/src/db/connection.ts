import { FaultError } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';
import { Kysely, PostgresDialect } from 'kysely';
import { Migrator } from 'kysely/migration';
import pg from 'pg';
import { MIGRATIONS } from './migrations.ts';

const SETTINGS =
  '-c idle_in_transaction_session_timeout=10000 -c statement_timeout=30000 -c client_connection_check_interval=2000 -c tcp_user_timeout=10000';

/** Brings the schema up to date with the owner's rights. Rejects when a migration fails; nothing of it stays. */
export async function migrate(databaseUrl: string): Promise<void> {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 });
  pool.on('error', () => undefined);
  const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
  try {
    const migrator = new Migrator({ db, provider: { getMigrations: async () => ({ ...MIGRATIONS }) } });
    const { error } = await migrator.migrateToLatest();
    if (error)
      throw new FaultError('database migration failed', { code: ERROR_CODES.auditMigrationFailed, cause: error });
  } finally {
    await db.destroy();
  }
}

/** One connection with the rights of the writer role, and no more. `onLost` is told when it breaks or warns. */
export async function connectWriter(databaseUrl: string, onLost: (error: Error) => void): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: databaseUrl,
    options: SETTINGS,
    application_name: 'countersign-audit',
  });
  client.on('error', onLost);
  // INVARIANT: a commit that no standby has is not answered. PostgreSQL only warns when it stops waiting for one.
  client.on('notice', ({ code, message }) => {
    if (code?.startsWith('01')) onLost(new Error(`the database warned: ${message}`));
  });
  await client.connect();
  await client.query('set role countersign_writer');
  return client;
}
