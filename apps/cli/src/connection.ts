import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { FaultError } from '@countersign/kernel';
import { loadRoster } from '@countersign/service-kit';
import type { Command } from 'commander';
import { z } from 'zod';
import { EXIT, RefusedError } from './output.ts';

/** Environment variables that stand in for `--connection` and `--agent`. */
export const CONNECTION_VARIABLE = 'COUNTERSIGN_CONNECTION';
export const AGENT_VARIABLE = 'COUNTERSIGN_AGENT';

const connectionSchema = z.strictObject({
  /** Address of the gateway. */
  gateway: z.url({ protocol: /^https?$/ }),
  /** File of mode 0600 that holds an API token. */
  tokenFile: z.string().min(1),
  /** The organisation's root key and the roster it signed: what makes `audit verify` independent of the gateway. */
  rootKey: z.string().length(56).optional(),
  rosterFile: z.string().min(1).optional(),
  /** Origin of the log's checkpoints. */
  logName: z.string().min(1).optional(),
});

const agentSchema = z.looseObject({
  natsUrl: z.string().min(1),
  identityFile: z.string().min(1),
  rootKey: z.string().length(56),
  rosterFile: z.string().min(1),
});

/** How a command reaches a control plane that does not run here. */
export type Connection = {
  readonly gateway: string;
  readonly token: string;
  readonly rootKey: string | undefined;
  /** Keys of the services, as the organisation's root signed them; undefined when the connection names no root key. */
  readonly roster: ReturnType<typeof loadRoster> | undefined;
  readonly logName: string | undefined;
};

const WHY_UNREADABLE: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  ENOTDIR: 'there is no such file',
  EISDIR: 'it is a folder',
  EACCES: 'this account may not read it',
};

const refused = (message: string): FaultError => new FaultError(message, { code: 'countersign.cli.connection' });

/** The text of a file that an option, a variable or a connection names. */
function readNamed(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const why = WHY_UNREADABLE[(error as NodeJS.ErrnoException).code ?? ''] ?? 'it cannot be read';
    throw new RefusedError(`cannot read \`${file}\`: ${why}`, 'countersign.cli.connection', EXIT.usage);
  }
}

function readJson<Schema extends z.ZodType>(file: string, schema: Schema): z.output<Schema> {
  const text = readNamed(file);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw refused(`\`${file}\` is not JSON; docs/deploy.md shows one`);
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const fields = parsed.error.issues.map((issue) => issue.path.join('.') || 'the whole').join(', ');
  throw refused(`\`${file}\` is not valid: ${fields}; docs/deploy.md shows one`);
}

/** SECURITY: a token goes over TLS or stays on this machine. */
function checkedAddress(gateway: string): string {
  const { protocol, hostname } = new URL(gateway);
  if (protocol === 'https:' || ['127.0.0.1', '[::1]', 'localhost'].includes(hostname)) return gateway;
  throw refused(`\`${gateway}\` would carry the token in the clear; use https`);
}

function readToken(file: string): string {
  const token = readNamed(file).trim();
  if ((statSync(file).mode & 0o077) !== 0)
    throw refused(`the token file \`${file}\` is open to others; run \`chmod 600\` on it`);
  return token;
}

/**
 * The connection that `--connection` or `COUNTERSIGN_CONNECTION` names; undefined when neither does, which means the
 * installation on this machine. File names in it are relative to it. Throws a FaultError that names what is wrong.
 */
export function connectionOf(command: Command): Connection | undefined {
  const { connection, data } = command.optsWithGlobals<{ connection?: string; data?: string }>();
  const named = connection ?? (data === undefined ? process.env[CONNECTION_VARIABLE] : undefined);
  if (!named) return undefined;
  const { gateway, tokenFile, rootKey, rosterFile, logName } = readJson(named, connectionSchema);
  const at = (file: string) => path.resolve(path.dirname(named), file);
  if ((rootKey === undefined) !== (rosterFile === undefined))
    throw refused(`\`${named}\` names only one of rootKey and rosterFile; they belong together`);
  return {
    gateway: checkedAddress(gateway),
    token: readToken(at(tokenFile)),
    rootKey,
    roster: rootKey === undefined || rosterFile === undefined ? undefined : loadRoster(at(rosterFile), rootKey),
    logName,
  };
}

/** The file that `countersign agent enroll` wrote, as `--agent` or `COUNTERSIGN_AGENT` names it; undefined when neither does. */
export function agentConfigOf(command: Command): z.output<typeof agentSchema> | undefined {
  const { agent, data } = command.optsWithGlobals<{ agent?: string; data?: string }>();
  const named = agent ?? (data === undefined ? process.env[AGENT_VARIABLE] : undefined);
  return named ? readJson(named, agentSchema) : undefined;
}
