import { existsSync, readFileSync } from 'node:fs';
import { FaultError } from '@countersign/kernel';
import { type Identity, KnownRoster, openRoster, type Roster } from '@countersign/protocol';
import { z } from 'zod';
import { followIdentity } from './follow-identity.ts';
import { replaceFile } from './replace-file.ts';

/** The one environment variable that a service reads: the path of its JSON configuration. */
export const CONFIG_VARIABLE = 'COUNTERSIGN_CONFIG';

const misconfigured = (message: string, cause?: unknown): FaultError =>
  new FaultError(message, { code: 'countersign.service.misconfigured', cause });

/** Fields that the configuration of every connected service holds. */
export const commonConfigSchema = z.object({
  logLevel: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal']).default('info'),
  natsUrl: z.string().min(1),
  identityFile: z.string().min(1),
  rootKey: z.string().length(56),
  rosterFile: z.string().min(1),
});

/** Reads and checks the configuration. Throws a FaultError that names the fields at fault, never their values. */
export function loadConfig<Schema extends z.ZodType>(schema: Schema, environment = process.env): z.output<Schema> {
  const file = environment[CONFIG_VARIABLE];
  if (!file) throw misconfigured(`set \`${CONFIG_VARIABLE}\` to the path of the configuration file`);
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file, 'utf8'));
  } catch (cause) {
    throw misconfigured(`cannot read \`${file}\` as JSON`, cause instanceof SyntaxError ? undefined : cause);
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const fields = parsed.error.issues.map((issue) => `\`${issue.path.join('.')}\` (${issue.code})`).join(', ');
  throw misconfigured(`configuration \`${file}\` is not valid: ${fields}`);
}

/** Opens the identity kept in `file` and follows its rotation. Rejects with a FaultError when the file cannot be read. */
export async function loadIdentity(file: string): Promise<Identity> {
  try {
    return await followIdentity(file);
  } catch {
    throw misconfigured(`cannot open the identity in \`${file}\``);
  }
}

/** Reads the roster and checks the root key's signature. Throws a FaultError when it does not verify. */
export function loadRoster(file: string, rootKey: string): Roster {
  const opened = openRoster(readFileSync(file), rootKey);
  if (opened.ok) return opened.value;
  throw misconfigured(`roster \`${file}\` is refused: ${opened.error.message}`);
}

/**
 * The roster that a service begins with, and follows from then on. Throws a FaultError when a file does not verify: a service
 * that lost what it knew must not begin anew in silence.
 * @param keptFile where newer rosters are kept, mode 0600; absent: in memory only.
 */
export function knownRoster(
  { rosterFile, rootKey }: { rosterFile: string; rootKey: string },
  { now = Date.now, keptFile }: { now?: () => number; keptFile?: string } = {},
): KnownRoster {
  loadRoster(rosterFile, rootKey);
  const keep = keptFile === undefined ? {} : { keep: (signed: Uint8Array) => replaceFile(keptFile, signed) };
  const roster = new KnownRoster(readFileSync(rosterFile), { rootKey, now, ...keep });
  if (keptFile !== undefined && existsSync(keptFile)) {
    loadRoster(keptFile, rootKey);
    roster.take(readFileSync(keptFile));
  }
  return roster;
}
