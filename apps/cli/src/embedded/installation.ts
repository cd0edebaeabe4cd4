import { createConnection } from 'node:net';
import path from 'node:path';
import { isServing } from '@countersign/service-kit';
import { freePort, makeCertificates } from '@countersign/service-kit/embedded';
import { type GatewayClient, gatewayClient } from '../gateway-client.ts';
import { type BrokerAccounts, followMembers, nameOf } from './broker-users.ts';
import { type Ports, type ServiceName, TLS_MEMBERS, writeServiceConfigs } from './config-files.ts';
import { type DataFolder, installationPath, openDataFolder } from './data-folder.ts';
import { type Endpoints, writeEndpoints } from './endpoints.ts';
import { type Keys, openKeys, readTokens, type TokenName } from './keys.ts';
import { type NatsUser, natsServerConfig } from './nats-config.ts';
import { stopOrphans } from './orphans.ts';
import { databaseUrl, postgresSpec, preparePostgres } from './postgres-process.ts';
import { writePrivateFile } from './private-file.ts';
import { keyVariables, readSettings } from './settings.ts';
import { createSupervisor, type ServiceSpec, type Supervisor } from './supervisor.ts';

/** A running embedded installation. */
export type Installation = {
  readonly data: DataFolder;
  readonly keys: Keys;
  readonly endpoints: Endpoints;
  readonly client: (token: TokenName) => GatewayClient;
  /** At the second gateway, where there is one. */
  readonly secondClient: (token: TokenName) => GatewayClient;
  readonly secondAddress: string;
  readonly stop: () => Promise<void>;
};

const ROOMS: Readonly<Record<ServiceName, string>> = {
  audit: 'audit',
  guardian: 'guardian',
  gateway: 'gateway',
  'gateway-2': 'gateway',
  runner: 'sandbox-runner',
};

function accepts(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = createConnection({ host: '127.0.0.1', port, timeout: 1_000 });
  socket.once('connect', () => resolve(true));
  socket.once('error', () => resolve(false));
  socket.once('timeout', () => resolve(false));
  return promise.finally(() => socket.destroy());
}

async function choosePorts(): Promise<Ports> {
  const [postgres, nats, audit, guardian, http, http2] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ];
  return { postgres, nats, audit, guardian, http, http2 };
}

/** Writes the broker's configuration: our own services, this host, the sample agent, and whoever joined. */
function writeBrokerConfig(data: DataFolder, keys: Keys, port: number, joined: BrokerAccounts): string {
  const file = path.join(data.config, 'nats.conf');
  const { gateway, 'gateway-2': second, audit, 'host-local': host, 'agent-sample': agent } = keys.identities;
  const own: NatsUser[] = [
    { role: 'gateway', id: gateway.id, publicKey: gateway.publicKey },
    { role: 'gateway', id: second.id, publicKey: second.publicKey },
    { role: 'audit', id: audit.id, publicKey: audit.publicKey },
    { role: 'host', id: host.id, publicKey: host.publicKey },
    { role: 'agent', id: agent.id, publicKey: agent.publicKey },
  ];
  // What the record says of a name takes the place of this folder's own keys.
  const users = [...own.filter((user) => !joined.names.has(nameOf(user))), ...joined.users];
  writePrivateFile(file, natsServerConfig(users, { port, storeDir: path.join(data.private, 'jetstream') }));
  return file;
}

function natsSpec(data: DataFolder, keys: Keys, port: number): ServiceSpec {
  const file = writeBrokerConfig(data, keys, port, { users: [], names: new Set() });
  return {
    name: 'nats-server',
    command: 'nats-server',
    args: ['-c', file],
    env: { PATH: `/usr/sbin:/usr/local/bin:${process.env.PATH ?? ''}` },
    logFile: path.join(data.private, 'logs/nats-server.log'),
    isReady: () => accepts(port),
    readyTimeoutMs: 15_000,
    stopSignal: 'SIGTERM',
  };
}

function serviceSpec(
  data: DataFolder,
  name: ServiceName,
  config: string,
  isReady: ServiceSpec['isReady'],
  main: readonly string[] = [],
): ServiceSpec {
  return {
    name,
    command: process.execPath,
    args: main.length > 0 ? main : [path.join(installationPath(), 'apps', ROOMS[name], 'src/main.ts')],
    env: {
      PATH: process.env.PATH ?? '/usr/bin:/bin',
      HOME: process.env.HOME ?? '/',
      LANG: 'C.UTF-8',
      COUNTERSIGN_HARDENED_MODE: process.env.COUNTERSIGN_HARDENED_MODE ?? '',
      COUNTERSIGN_CONFIG: config,
    },
    logFile: path.join(data.private, `logs/${name}.log`),
    isReady,
    readyTimeoutMs: 30_000,
    stopSignal: 'SIGTERM',
  };
}

/** The Guardian with the keys that its settings name; no other service gets them. */
function guardianSpec(data: DataFolder, config: string, isReady: ServiceSpec['isReady']): ServiceSpec {
  const spec = serviceSpec(data, 'guardian', config, isReady);
  const keys = keyVariables(readSettings(data)).flatMap((name): [string, string][] => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  });
  return { ...spec, env: { ...Object.fromEntries(keys), ...spec.env } };
}

async function startServices(
  supervisor: Supervisor,
  data: DataFolder,
  keys: Keys,
  { say, mains, gateways }: { say: (line: string) => void; mains: Mains; gateways: 1 | 2 },
) {
  const ports = await choosePorts();
  say('database: preparing');
  const password = await preparePostgres(data);
  const certificates = await makeCertificates(path.join(data.private, 'tls'), TLS_MEMBERS);
  const configs = writeServiceConfigs(data, keys, {
    ...{ ports, certificates },
    databaseUrl: databaseUrl(password, ports.postgres),
  });
  const http = `http://127.0.0.1:${ports.http}`;
  const tokens = readTokens(data);
  const client = (token: TokenName) => gatewayClient(http, tokens[token] ?? '');
  const http2 = `http://127.0.0.1:${ports.http2}`;
  const secondClient = (token: TokenName) => gatewayClient(http2, tokens[token] ?? '');
  const grpcReady = (port: number, serverName: 'audit' | 'guardian') => () =>
    isServing(`127.0.0.1:${port}`, 1_000, { ...certificates.probe, serverName });
  const specs: ServiceSpec[] = [
    postgresSpec(data, ports.postgres),
    natsSpec(data, keys, ports.nats),
    serviceSpec(data, 'audit', configs.audit, grpcReady(ports.audit, 'audit'), mains.audit),
    guardianSpec(data, configs.guardian, grpcReady(ports.guardian, 'guardian')),
    serviceSpec(data, 'gateway', configs.gateway, () => client('local-operator').isReady(), mains.gateway),
    ...(gateways === 2
      ? [serviceSpec(data, 'gateway-2', configs['gateway-2'], () => secondClient('local-operator').isReady())]
      : []),
    serviceSpec(data, 'runner', configs.runner, async () => true, mains.runner),
  ];
  for (const spec of specs) {
    const before = Date.now();
    await supervisor.start(spec);
    say(`${spec.name}: started (${Date.now() - before} ms)`);
  }
  const unfollow = followMembers(client('local-broker'), keys.identities.root.publicKey, (accounts) => {
    writeBrokerConfig(data, keys, ports.nats, accounts);
    supervisor.signal('nats-server', 'SIGHUP');
  });
  const endpoints = { http, natsUrl: `nats://127.0.0.1:${ports.nats}`, rootKey: keys.identities.root.publicKey };
  writeEndpoints(data, endpoints);
  return { endpoints, client, secondClient, secondAddress: http2, unfollow };
}

/** Command lines that crash tests run in place of a service's own. */
type Mains = Readonly<Partial<Record<ServiceName, readonly string[]>>>;

export type InstallationOptions = {
  readonly interrupted?: Promise<void>;
  readonly mains?: Mains;
  /** Gateways on the same record and broker; they share the calls. */
  readonly gateways?: 1 | 2;
  /** Longest wait before a service that ended is started again. */
  readonly longestRestartMs?: number;
};

/**
 * Starts everything on loopback, on free ports. Stops what it started and rejects when a service is not ready or
 * `interrupted` resolves first.
 */
export async function startInstallation(
  dataRoot: string,
  say: (line: string) => void,
  { interrupted, mains = {}, gateways = 1, longestRestartMs }: InstallationOptions = {},
): Promise<Installation> {
  const data = openDataFolder(dataRoot);
  const pidFile = path.join(data.private, 'run/processes.json');
  const orphans = await stopOrphans(pidFile);
  if (orphans.length > 0) say(`stopped what a killed run left: ${orphans.join(', ')}`);
  const keys = await openKeys(data);
  const supervisor = createSupervisor(pidFile, say, longestRestartMs);
  let starting = true;
  void interrupted?.then(() => (starting ? supervisor.stopAll() : undefined));
  try {
    const started = await startServices(supervisor, data, keys, { say, mains, gateways });
    starting = false;
    const { unfollow, ...parts } = started;
    const stop = () => {
      unfollow();
      return supervisor.stopAll();
    };
    return { data, keys, ...parts, stop };
  } catch (error) {
    await supervisor.stopAll();
    throw error;
  }
}
