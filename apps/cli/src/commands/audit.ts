import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FaultError } from '@countersign/kernel';
import type { AuditEntry, Ended, Problem } from '@countersign/merkle';
import { type Command, Option } from 'commander';
import { z } from 'zod';
import { evidenceFileOf, readEvidence, strayFiles, writeEvidence } from '../bundle/evidence.ts';
import type { LogKey } from '../bundle/log-crypto.ts';
import { type AuditKeys, verifyEvidence } from '../bundle/verify-evidence.ts';
import { CHECKPOINTS_FILE, verifyFolder } from '../bundle/verify-export.ts';
import { type ExportFormat, FORMATS, writeExport } from '../bundle/write-export.ts';
import { accepted, localAuditKeys, localGateway, localLogKey } from '../local-installation.ts';
import { collect } from '../options.ts';
import { EXIT, plainText, print, RefusedError } from '../output.ts';
import { addAuditCustodyCommands } from './audit-custody.ts';
import { checkOnline, readDatabaseCheck } from './audit-online.ts';
import { addAuditQueryCommand } from './audit-query.ts';

const checkpointsSchema = z.object({ checkpoints: z.array(z.object({ note: z.string() })) });
const streamsSchema = z.object({
  streams: z.array(
    z.object({
      name: z.string(),
      next: z.int(),
      lag: z.int(),
      gaps: z.int(),
      failures: z.int(),
      problem: z.string(),
    }),
  ),
  indexLag: z.int(),
});
const MAX_CHECKPOINT_FILE = 131_072;

type VerifyFlags = { key?: string; logName?: string; olderCheckpoint?: string; witness?: string[]; online?: boolean };

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

/** One line for a problem. */
export const problemLine = (problem: Problem): string =>
  plainText(`${place(problem)}: ${problem.code}: ${problem.message}`);

const endedLine = ({ index, type, scope, subject, sessions }: Ended): string =>
  `entry ${index}: ${type === 'erasure.done' ? 'payloads erased' : 'entries dropped'}: ${scope}, ${sessions} sessions, by ${subject}`;

const entryLine = ({ index, type, recorded_ms: ms, decision, approver, detail, host }: AuditEntry): string => {
  const facts = [decision?.effect, decision?.decided_by, approver?.subject, host, detail?.state, detail?.reason];
  const told = facts.filter((fact) => typeof fact === 'string' && fact !== '').join(', ');
  return `${String(index).padStart(8)}  ${new Date(ms).toISOString()}  ${type}${told === '' ? '' : `: ${told}`}`;
};

type Checked = {
  readonly problems: readonly Problem[];
  readonly more: number;
  readonly lines: readonly string[];
  readonly value: object;
  /** A whole log that was verified. */
  readonly copy?: { readonly size: number; readonly root: Uint8Array };
};

function verifyLog(folder: string, flags: VerifyFlags, log: LogKey): Checked {
  const { olderCheckpoint, witness = [] } = flags;
  const { root, ...result } = verifyFolder(folder, log, {
    witnesses: witness,
    ...(olderCheckpoint === undefined ? {} : { olderCheckpoint: readCheckpoint(olderCheckpoint) }),
  });
  const { problems, moreProblems, entries, openCalls, witnessed, ended, signedApprovals } = result;
  const lines = [
    ...witnessed.map(({ name, seconds }) => `cosigned by ${name} at ${new Date(seconds * 1000).toISOString()}`),
    ...ended.map(endedLine),
    ...(signedApprovals > 0 ? [`${signedApprovals} approvals signed with a passkey`] : []),
    `${entries} entries, ${openCalls.length} calls open, ${problems.length + moreProblems} problems`,
  ];
  const value = { ...result, root: Buffer.from(root).toString('hex') };
  return { problems, more: moreProblems, lines, value, copy: { size: entries, root } };
}

function verifyCall(file: string, log: LogKey, auditKeys: AuditKeys | undefined): Checked {
  const evidence = readEvidence(file);
  if (!evidence) {
    const problem = { index: null, code: 'malformed_evidence', message: 'not evidence of a call' };
    return { problems: [problem], more: 0, lines: ['1 problem'], value: { problems: [problem] } };
  }
  const { problems: found, entries, isClosed } = verifyEvidence(evidence, log, auditKeys);
  const stray = strayFiles(file, evidence).map((name) => ({
    index: null,
    code: 'stray_file',
    message: `\`entries/${name}\` is not what the evidence says`,
  }));
  const problems = [...found, ...stray];
  const lines = [
    ...entries.map((entry) => entryLine(entry)),
    `call ${evidence.call}: ${entries.length} entries, ${isClosed ? 'ended' : 'open'}, ${problems.length} problems`,
  ];
  return { problems, more: 0, lines, value: { call: evidence.call, isClosed, problems, entries } };
}

async function verify(place: string, flags: VerifyFlags, command: Command): Promise<void> {
  const log = trustedLog(command, flags);
  const file = evidenceFileOf(place);
  const checked = file ? verifyCall(file, log, localAuditKeys(command, flags.key)) : verifyLog(place, flags, log);
  const online = flags.online && checked.copy ? await checkOnline(command, checked.copy, log) : [];
  const problems = [...checked.problems, ...online];
  const lines = [
    ...problems.map(problemLine),
    ...(checked.more > 0 ? [`and ${checked.more} more`] : []),
    ...checked.lines.map(plainText),
    ...(flags.online ? [`database: ${online.length} problems`] : []),
  ];
  print(command, { ...checked.value, problems }, lines.join('\n'));
  process.exitCode = problems.length === 0 ? EXIT.ok : EXIT.refused;
}

/** Writes the stored checkpoints beside the export, oldest first; they narrow down where a later fault is. */
async function keepCheckpoints(command: Command, folder: string, entries: number): Promise<void> {
  const path = `checkpoints?limit=1000&before=${entries + 1}`;
  const { checkpoints } = checkpointsSchema.parse(accepted(await localGateway(command, 'local-auditor').audit(path)));
  const lines = checkpoints.reverse().map(({ note }) => `${JSON.stringify({ checkpoint: note })}\n`);
  writeFileSync(join(folder, CHECKPOINTS_FILE), lines.join(''));
}

async function showStreams(_flags: object, command: Command): Promise<void> {
  const { streams, indexLag } = streamsSchema.parse(
    accepted(await localGateway(command, 'local-auditor').audit('streams')),
  );
  const lines = streams.map(
    ({ name, next, lag, gaps, failures, problem }) =>
      `${name}: next ${next}, lag ${lag}, gaps ${gaps}, failures ${failures}${problem === '' ? '' : `: ${problem}`}`,
  );
  print(command, { streams, indexLag }, [...lines.map(plainText), `query columns: lag ${indexLag}`].join('\n'));
}

type ProveFlags = { out?: string; withArguments?: boolean };

async function prove(call: string, { out, withArguments }: ProveFlags, command: Command): Promise<void> {
  const folder = out ?? `evidence-${call}`;
  if (evidenceFileOf(folder))
    throw new RefusedError(`\`${folder}\` holds evidence already`, 'countersign.cli.folder_taken', EXIT.usage);
  const path = `calls/${encodeURIComponent(call)}/evidence${withArguments ? '?arguments=true' : ''}`;
  const written = writeEvidence(folder, accepted(await localGateway(command, 'local-auditor').audit(path)));
  print(command, { folder, ...written }, `wrote ${written.entries} entries with proofs to ${folder}`);
}

/** `countersign audit export | verify | prove | fsck | query`. Verify ends with 0 clean, 1 problems, 2 bundle or key missing. */
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
      await keepCheckpoints(command, out, written.entries);
      print(command, { folder: out, ...written }, `wrote ${written.entries} entries to ${out}`);
    });
  audit
    .command('verify <folder>')
    .description('verify an exported log offline: tiles or JSON Lines')
    .option('--key <nkey>', "the log's public key, as you know it (default: this installation's roster)")
    .option('--log-name <name>', "the log's name")
    .option('--older-checkpoint <file>', 'a checkpoint kept from earlier; the log must extend it')
    .option('--witness <vkey>', 'a witness that must have cosigned (name+id+base64); repeatable', collect)
    .option('--online', 'also compare the database of the running installation with the tree and with this copy')
    .action(verify);
  audit
    .command('prove <call>')
    .description('write the evidence of one call; `audit verify` checks it anywhere')
    .option('--out <folder>', 'folder for the evidence (default: evidence-<call>)')
    .option('--with-arguments', 'also the exact arguments; this reading becomes an entry')
    .action(prove);
  audit
    .command('fsck')
    .description('compare the database of the running installation with the tree')
    .action(async (_flags: object, command: Command) => {
      const { problems, entries, more } = await readDatabaseCheck(command);
      const lines = [...problems.map(problemLine), ...(more > 0 ? [`and ${more} more`] : [])];
      print(
        command,
        { entries, problems },
        [...lines, `${entries} entries, ${problems.length + more} problems`].join('\n'),
      );
      process.exitCode = problems.length === 0 ? EXIT.ok : EXIT.refused;
    });
  audit.command('streams').description('how far each stream to a place outside is').action(showStreams);
  addAuditQueryCommand(audit);
  addAuditCustodyCommands(audit);
}
