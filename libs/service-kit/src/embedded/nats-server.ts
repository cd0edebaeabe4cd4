import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { FaultError } from '@countersign/kernel';
import { endProcess, isAlive } from './process-end.ts';

/** A running nats-server of our own, with JetStream. */
export type EmbeddedNats = {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Replaces users and permissions without a restart. */
  readonly reload: (configText: string) => Promise<void>;
  /** Orderly stop; resolves when the server has ended. */
  readonly stop: () => Promise<void>;
};

export type NatsServerOptions = {
  /** Folder of configuration and JetStream store; made when missing, kept otherwise. */
  readonly dataDir: string;
  /** Accounts, users and permissions in the server's own format. SECURITY: without users the server would be open, so it is refused. */
  readonly configText: string;
  /** Keep this port; absent takes a free one. */
  readonly port?: number;
};

const CANDIDATES = [
  '/usr/sbin/nats-server',
  '/usr/bin/nats-server',
  '/usr/local/bin/nats-server',
  '/opt/homebrew/bin/nats-server',
];
const START_TRIES = 100;
const START_POLL_MS = 50;

function binary(): string {
  const found = CANDIDATES.find((candidate) => existsSync(candidate));
  if (found) return found;
  throw new FaultError('nats-server is not installed; run `apt-get install nats-server`', {
    code: 'countersign.start.no_nats',
  });
}

async function stopOrphan(pidFile: string, configFile: string): Promise<void> {
  if (!existsSync(pidFile)) return;
  const pid = Number(readFileSync(pidFile, 'utf8'));
  const commandLine = isAlive(pid) ? readFileSync(`/proc/${pid}/cmdline`, 'utf8') : '';
  if (commandLine.includes('nats-server') && commandLine.includes(configFile)) await endProcess(pid, 'SIGTERM');
}

async function readPort(portsDir: string, hasEnded: () => boolean): Promise<number | undefined> {
  for (let attempt = 0; attempt < START_TRIES && !hasEnded(); attempt += 1) {
    const file = readdirSync(portsDir).find((name) => name.endsWith('.ports'));
    const text = file === undefined ? '' : readFileSync(path.join(portsDir, file), 'utf8');
    const port = /nats:\/\/127\.0\.0\.1:(\d+)/.exec(text)?.[1];
    if (port !== undefined) return Number(port);
    await delay(START_POLL_MS);
  }
  return undefined;
}

/** Starts nats-server on loopback. Rejects with a FaultError that quotes the server's own words when it does not start. */
export async function startNats(options: NatsServerOptions): Promise<EmbeddedNats> {
  if (!/\busers\b|\baccounts\b/.test(options.configText)) {
    throw new FaultError('nats configuration names no users; an open broker is refused', {
      code: 'countersign.start.open_nats',
    });
  }
  const command = binary();
  const portsDir = path.join(options.dataDir, 'ports');
  const configFile = path.join(options.dataDir, 'nats.conf');
  const pidFile = path.join(options.dataDir, 'nats.pid');
  mkdirSync(options.dataDir, { recursive: true, mode: 0o700 });
  await stopOrphan(pidFile, configFile);
  rmSync(portsDir, { recursive: true, force: true });
  mkdirSync(portsDir, { mode: 0o700 });
  const write = (text: string, port: number) =>
    writeFileSync(
      configFile,
      `listen: "127.0.0.1:${port}"\nports_file_dir: ${JSON.stringify(portsDir)}\npid_file: ${JSON.stringify(pidFile)}\njetstream { store_dir: ${JSON.stringify(path.join(options.dataDir, 'store'))} }\n${text}\n`,
      { mode: 0o600 },
    );
  write(options.configText, options.port ?? -1);
  const checked = spawnSync(command, ['-t', '-c', configFile], { encoding: 'utf8' });
  if (checked.status !== 0) {
    throw new FaultError(`nats configuration is refused: ${checked.stderr.trim().slice(-500)}`, {
      code: 'countersign.start.nats_failed',
    });
  }
  const child = spawn(command, ['-c', configFile], { stdio: ['ignore', 'ignore', 'pipe'], detached: true });
  let errors = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    errors = `${errors}${chunk.toString('utf8')}`.slice(-2_000);
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const port = await readPort(portsDir, () => child.exitCode !== null);
  if (port === undefined) {
    child.kill('SIGTERM');
    throw new FaultError(`nats-server did not start: ${errors.trim()}`, { code: 'countersign.start.nats_failed' });
  }
  return {
    url: `nats://127.0.0.1:${port}`,
    port,
    pid: child.pid ?? 0,
    reload: async (configText) => {
      write(configText, port);
      child.kill('SIGHUP');
    },
    stop: async () => {
      child.kill('SIGTERM');
      await ended;
    },
  };
}
