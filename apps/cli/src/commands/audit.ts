import { readFileSync, statSync } from 'node:fs';
import { FaultError } from '@countersign/kernel';
import type { Problem } from '@countersign/merkle';
import { type Command, Option } from 'commander';
import type { LogKey } from '../bundle/log-crypto.ts';
import { verifyFolder } from '../bundle/verify-export.ts';
import { type ExportFormat, FORMATS, writeExport } from '../bundle/write-export.ts';
import { accepted, localGateway, localLogKey } from '../local-installation.ts';
import { EXIT, print, RefusedError } from '../output.ts';

const MAX_CHECKPOINT_FILE = 131_072;

type VerifyFlags = { key?: string; logName?: string; olderCheckpoint?: string; witness: string[] };

function readCheckpoint(file: string): string {
  try {
    if (statSync(file).size <= MAX_CHECKPOINT_FILE) return readFileSync(file, 'utf8');
  } catch {
    // Told like a file that is too large.
  }
  throw new RefusedError(`cannot read the kept checkpoint \`${file}\``, 'countersign.cli.no_checkpoint', EXIT.usage);
}

/** The log's key: as named, or of this installation. A machine without one must be told. */
export function trustedLog(command: Command, { key, logName }: { key?: string; logName?: string }): LogKey {
  if ((key === undefined) !== (logName === undefined))
    throw new RefusedError('`--key` and `--log-name` go together', 'countersign.cli.no_log_key', EXIT.usage);
  if (key !== undefined && logName !== undefined) {
    if (/^U[A-Z2-7]{55}$/.test(key)) return { publicKey: key, name: logName };
    throw new RefusedError(`\`${key}\` is no public key (\`U…\`)`, 'countersign.cli.bad_key', EXIT.usage);
  }
  try {
    return localLogKey(command);
  } catch (error) {
    if (!(error instanceof FaultError)) throw error;
    const message = 'no key to verify with: pass `--key` and `--log-name`, or `--data` of an installation';
    throw new RefusedError(message, 'countersign.cli.no_log_key', EXIT.usage);
  }
}

const place = ({ index, until }: Problem): string => {
  if (index === null) return 'log';
  return until !== undefined && until > index + 1 ? `entries ${index} to ${until - 1}` : `entry ${index}`;
};

/** One line for a problem. SECURITY: what a file says may hold control characters; a terminal must not act on them. */
export const problemLine = (problem: Problem): string =>
  `${place(problem)}: ${problem.code}: ${problem.message}`.replace(
    /[\p{Cc}\p{Zl}\p{Zp}\p{Cf}]/gu,
    (char) => `\\u${(char.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  );

const collect = (value: string, before: string[]): string[] => [...before, value];

function verify(folder: string, flags: VerifyFlags, command: Command): void {
  const { olderCheckpoint, witness } = flags;
  const { root, ...result } = verifyFolder(folder, trustedLog(command, flags), {
    witnesses: witness,
    ...(olderCheckpoint === undefined ? {} : { olderCheckpoint: readCheckpoint(olderCheckpoint) }),
  });
  const { problems, moreProblems, entries, openCalls, witnessed } = result;
  const lines = [
    ...problems.map(problemLine),
    ...(moreProblems > 0 ? [`and ${moreProblems} more`] : []),
    ...witnessed.map(({ name, seconds }) => `cosigned by ${name} at ${new Date(seconds * 1000).toISOString()}`),
    `${entries} entries, ${openCalls.length} calls open, ${problems.length + moreProblems} problems`,
  ];
  print(command, { ...result, root: Buffer.from(root).toString('hex') }, lines.join('\n'));
  process.exitCode = problems.length === 0 ? EXIT.ok : EXIT.refused;
}

/** `countersign audit export | verify`. Verify ends with 0 clean, 1 problems, 2 bundle or key missing. */
export function addAuditCommand(program: Command): void {
  const audit = program.command('audit').description('the record');
  audit
    .command('export')
    .description('write the whole log to a folder that an outsider can verify')
    .requiredOption('--out <folder>', 'folder for the bundle')
    .addOption(new Option('--format <format>', 'form of the entries').choices(FORMATS).default('tiles'))
    .action(async ({ out, format }: { out: string; format: ExportFormat }, command: Command) => {
      const stream = accepted(await localGateway(command, 'local-auditor').exportStream());
      const written = await writeExport(out, stream, format, localLogKey(command));
      print(command, { folder: out, ...written }, `wrote ${written.entries} entries to ${out}`);
    });
  audit
    .command('verify <folder>')
    .description('verify an exported log offline: tiles or JSON Lines')
    .option('--key <nkey>', "the log's public key, as you know it (default: this installation's roster)")
    .option('--log-name <name>', "the log's name")
    .option('--older-checkpoint <file>', 'a checkpoint kept from earlier; the log must extend it')
    .option('--witness <vkey>', 'a witness that must have cosigned (name+id+base64); repeatable', collect, [])
    .action(verify);
}
