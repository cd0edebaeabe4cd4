import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type Agent, connectAgent } from '@countersign/agent';
import { FaultError, type Result } from '@countersign/kernel';
import { liveKeys, type Roster, type RosterMember } from '@countersign/protocol';
import { knownRoster, loadIdentity, loadRoster } from '@countersign/service-kit';
import type { Command } from 'commander';
import type { AuditKeys } from './bundle/verify-evidence.ts';
import { agentConfigOf, connectionOf } from './connection.ts';
import { type DataFolder, defaultDataFolder, openDataFolder } from './embedded/data-folder.ts';
import { readEndpoints } from './embedded/endpoints.ts';
import { readTokens, type TokenName } from './embedded/keys.ts';
import { type GatewayClient, gatewayClient, type Problem } from './gateway-client.ts';
import { RefusedError } from './output.ts';

/** The data folder that `--data` names, or this installation's own. */
export const dataRoot = (command: Command): string =>
  path.resolve(command.optsWithGlobals<{ data?: string }>().data ?? defaultDataFolder());

/** The data folder of an installation that was started. Throws, and makes nothing, when it was not. */
function opened(command: Command): DataFolder {
  const root = dataRoot(command);
  if (existsSync(path.join(root, 'private'))) return openDataFolder(root);
  throw new FaultError(
    `nothing was started in \`${root}\`; run \`npm start\` first, or name its folder with \`--data\``,
    {
      code: 'countersign.cli.not_started',
    },
  );
}

/** The gateway of the named connection, or of this machine's installation as one of its local tokens. */
export function localGateway(command: Command, token: TokenName): GatewayClient {
  const connection = connectionOf(command);
  if (connection) return gatewayClient(connection.gateway, connection.token);
  const data = opened(command);
  return gatewayClient(readEndpoints(data).http, readTokens(data)[token] ?? '');
}

/** Address of the same gateway. */
export const gatewayAddress = (command: Command): string =>
  connectionOf(command)?.gateway ?? readEndpoints(opened(command)).http;

/** Help of `--agent`. */
export const AGENT_OPTION =
  'file that `agent enroll` wrote; COUNTERSIGN_AGENT names it too (default: the sample agent of this machine)';

/** Connects as the agent that `--agent` names, or as the sample agent of this machine's installation. */
export async function localAgent(command: Command): Promise<Agent> {
  const named = agentConfigOf(command);
  if (named) {
    const { natsUrl, identityFile, rosterFile, rootKey } = named;
    return connectAgent({
      natsUrl,
      identity: await loadIdentity(identityFile),
      roster: knownRoster({ rosterFile, rootKey }),
    });
  }
  const data = opened(command);
  const identity = await loadIdentity(path.join(data.keys, 'agent-sample.json'));
  const { natsUrl, rootKey } = readEndpoints(data);
  const roster = knownRoster({ rosterFile: path.join(data.private, 'roster.bin'), rootKey });
  return connectAgent({ natsUrl, identity, roster });
}

const localRoster = (data: DataFolder): Roster =>
  loadRoster(path.join(data.private, 'roster.bin'), readEndpoints(data).rootKey);

/** SECURITY: the keys that a proof is checked with come from the roster that the root signed, never from the gateway. */
function rosterOf(command: Command): { readonly roster: Roster; readonly logName: string } {
  const connection = connectionOf(command);
  if (connection) {
    const { roster, logName } = connection;
    if (roster && logName) return { roster, logName };
    throw new RefusedError(
      'the connection names no root key, roster and log; add them, or name the key with `--key`',
      'countersign.cli.no_log_key',
    );
  }
  const data = opened(command);
  const { logName } = JSON.parse(readFileSync(path.join(data.config, 'audit.json'), 'utf8')) as { logName: string };
  return { roster: localRoster(data), logName };
}

/** Public key that signs the log's checkpoints, and the log's name. */
export function localLogKey(command: Command): { readonly publicKey: string; readonly name: string } {
  const { roster, logName } = rosterOf(command);
  const [log] = liveKeys(roster, 'log', Date.now());
  if (!log) throw new RefusedError('the roster has no `log` key', 'countersign.cli.no_log_key');
  return { publicKey: log.signKey, name: logName };
}

/** Keys of the audit service, those of earlier rotations too; undefined when another log's key was named. */
export function localAuditKeys(command: Command, namedLogKey: string | undefined): AuditKeys | undefined {
  if (namedLogKey !== undefined) return undefined;
  const members = rosterOf(command).roster.members.filter(({ role }) => role === 'audit');
  const keysOf = (found: readonly RosterMember[]) => found.map(({ signKey }) => signKey);
  return { known: keysOf(members), revoked: keysOf(members.filter(({ revoked }) => revoked)) };
}

/** The value of a gateway answer; a refusal ends the command. */
export function accepted<T>(answer: Result<T, Problem>): T {
  if (answer.ok) return answer.value;
  const { code, detail, winner } = answer.error;
  throw new RefusedError(winner ? `${detail} (decided by ${winner})` : detail, code);
}
