import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type Agent, connectAgent } from '@countersign/agent';
import { FaultError, type Result } from '@countersign/kernel';
import { liveKeys } from '@countersign/protocol';
import { knownRoster, loadIdentity, loadRoster } from '@countersign/service-kit';
import type { Command } from 'commander';
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

/** The gateway of the running installation, as one of its local tokens. */
export function localGateway(command: Command, token: TokenName): GatewayClient {
  const data = opened(command);
  return gatewayClient(readEndpoints(data).http, readTokens(data)[token] ?? '');
}

/** Connects as the agent whose identity file is named, or as the sample agent. */
export async function localAgent(command: Command, identityFile?: string): Promise<Agent> {
  const data = opened(command);
  const { natsUrl, rootKey } = readEndpoints(data);
  const roster = knownRoster({ rosterFile: path.join(data.private, 'roster.bin'), rootKey });
  const identity = await loadIdentity(identityFile ?? path.join(data.keys, 'agent-sample.json'));
  return connectAgent({ natsUrl, identity, roster });
}

/** Public key that signs the log's checkpoints, and the log's name. */
export function localLogKey(command: Command): { readonly publicKey: string; readonly name: string } {
  const data = opened(command);
  const roster = loadRoster(path.join(data.private, 'roster.bin'), readEndpoints(data).rootKey);
  const [log] = liveKeys(roster, 'log', Date.now());
  if (!log) throw new RefusedError('the roster has no `log` key', 'countersign.cli.no_log_key');
  const { logName } = JSON.parse(readFileSync(path.join(data.config, 'audit.json'), 'utf8')) as { logName: string };
  return { publicKey: log.signKey, name: logName };
}

/** Key of this installation's audit service; undefined where there is no installation, or another log's key was named. */
export function localAuditKey(command: Command, namedLogKey: string | undefined): string | undefined {
  if (namedLogKey !== undefined) return undefined;
  const data = opened(command);
  const roster = loadRoster(path.join(data.private, 'roster.bin'), readEndpoints(data).rootKey);
  return liveKeys(roster, 'audit', Date.now())[0]?.signKey;
}

/** The value of a gateway answer; a refusal ends the command. */
export function accepted<T>(answer: Result<T, Problem>): T {
  if (answer.ok) return answer.value;
  const { code, detail, winner } = answer.error;
  throw new RefusedError(winner ? `${detail} (decided by ${winner})` : detail, code);
}
