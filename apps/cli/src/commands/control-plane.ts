import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Command } from 'commander';
import { connectionOf } from '../connection.ts';
import { reloadBroker, writeBrokerAccounts } from '../control-plane/broker-accounts.ts';
import { initControlPlane } from '../control-plane/init-control-plane.ts';
import { type BrokerAccounts, brokerAccountsNow, followMembers } from '../embedded/broker-users.ts';
import { gatewayClient } from '../gateway-client.ts';
import { wholeNumber } from '../options.ts';
import { print, RefusedError, usage } from '../output.ts';

const MAX_GATEWAYS = 8;

type InitOptions = {
  out: string;
  state: string;
  publicUrl: string;
  broker: string;
  brokerCert?: string;
  brokerKey?: string;
  databaseFile: string;
  logName?: string;
  gateways: string;
  httpPort: string;
  auditPort: string;
  guardianPort: string;
};

function brokerTls({ brokerCert, brokerKey }: InitOptions): { cert: string; key: string } | undefined {
  if (brokerCert === undefined && brokerKey === undefined) return undefined;
  if (brokerCert === undefined || brokerKey === undefined)
    throw usage('`--broker-cert` and `--broker-key` go together');
  return { cert: path.resolve(brokerCert), key: path.resolve(brokerKey) };
}

async function init(options: InitOptions, command: Command): Promise<void> {
  const out = path.resolve(options.out);
  const { files } = await initControlPlane({
    out,
    state: path.resolve(options.state),
    publicUrl: options.publicUrl,
    brokerUrl: options.broker,
    brokerTls: brokerTls(options),
    // SECURITY: from a file, so that the password is in no list of processes.
    databaseUrl: readFileSync(options.databaseFile === '-' ? 0 : options.databaseFile, 'utf8').trim(),
    logName:
      options.logName ?? `countersign/${URL.canParse(options.publicUrl) ? new URL(options.publicUrl).hostname : ''}`,
    gateways: wholeNumber(options.gateways, '--gateways', { most: MAX_GATEWAYS }),
    ports: {
      http: wholeNumber(options.httpPort, '--http-port', { most: 65_535 - MAX_GATEWAYS }),
      audit: wholeNumber(options.auditPort, '--audit-port', { most: 65_535 }),
      guardian: wholeNumber(options.guardianPort, '--guardian-port', { most: 65_535 }),
    },
  });
  const text = [
    `written below ${out}: ${files.length} files`,
    `take ${path.join(out, 'root')} off this machine now: whoever holds it vouches for every key`,
    'docs/deploy.md says what to do next',
  ];
  print(command, { out, files }, text.join('\n'));
}

const REFUSED = 'the gateway refuses the token, or its roster is not signed by the root key of the connection';

type AccountsOptions = { out: string; pidFile: string; follow?: boolean };

/** Keeps the broker's accounts equal to the roster and the members of the record. */
async function brokerAccounts(options: AccountsOptions, command: Command): Promise<void> {
  const connection = connectionOf(command);
  if (connection?.rootKey === undefined) throw usage('name a connection with root key and roster with `--connection`');
  const { gateway, token, rootKey } = connection;
  const client = gatewayClient(gateway, token);
  const apply = ({ users }: BrokerAccounts) => {
    const changed = writeBrokerAccounts(options.out, users);
    const reloaded = changed && reloadBroker(options.pidFile);
    const state = changed ? (reloaded ? 'written, broker reloaded' : 'written; the broker does not run') : 'unchanged';
    print(command, { accounts: users.length, changed, reloaded }, `${users.length} accounts: ${state}`);
  };
  if (options.follow) {
    const { promise: stopped, resolve } = Promise.withResolvers<void>();
    const unfollow = followMembers(client, rootKey, apply, () => process.stderr.write(`${REFUSED}; asking again\n`));
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve());
    await stopped;
    return unfollow();
  }
  const accounts = await brokerAccountsNow(client, rootKey);
  if (accounts) return apply(accounts);
  throw new RefusedError(REFUSED, 'countersign.cli.connection');
}

/** `countersign control-plane init | broker-accounts`. */
export function addControlPlaneCommand(program: Command): void {
  const parent = program.command('control-plane').description('a control plane for many hosts; docs/deploy.md');
  parent
    .command('init')
    .description('make keys and configurations of a control plane; starts nothing')
    .requiredOption('--out <folder>', 'folder for keys and configurations, such as /etc/countersign')
    .option('--state <folder>', 'folder of what the services write', '/var/lib/countersign')
    .requiredOption('--public-url <address>', 'https address at which people reach the desk')
    .requiredOption('--broker <address>', 'broker address for hosts and agents: tls://HOST:PORT')
    .option('--broker-cert <file>', "the broker's certificate, PEM")
    .option('--broker-key <file>', 'its key, PEM')
    .requiredOption('--database-file <file>', 'file that holds the owner address of PostgreSQL, `-` for standard input')
    .option(
      '--log-name <name>',
      "origin of the log's checkpoints, never changed later (default: from the public address)",
    )
    .option('--gateways <count>', `gateways that share the load, at most ${MAX_GATEWAYS}`, '1')
    .option('--http-port <port>', 'loopback port of the first gateway, behind your reverse proxy', '7400')
    .option('--audit-port <port>', 'loopback port of audit', '7500')
    .option('--guardian-port <port>', 'loopback port of the Guardian', '7501')
    .action((options: InitOptions, command: Command) => init(options, command));
  parent
    .command('broker-accounts')
    .description("write the broker's accounts of all services, hosts and agents, and make it read them")
    .requiredOption('--out <file>', "the accounts file that the broker's configuration includes")
    .requiredOption('--pid-file <file>', "the broker's process id")
    .option('--follow', 'go on for every member that joins or leaves, within two seconds')
    .action((options: AccountsOptions, command: Command) => brokerAccounts(options, command));
}
