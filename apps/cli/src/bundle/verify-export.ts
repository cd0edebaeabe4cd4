import { Buffer } from 'node:buffer';
import { existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import {
  equalBytes,
  fromBase64,
  type NoteVerifier,
  type Problem,
  type Verification,
  verifyBundle,
  verifyCosignature,
  witnessKeyId,
} from '@countersign/merkle';
import { EXIT, RefusedError } from '../output.ts';
import { ApproverSignatures } from './approver-signatures.ts';
import { type LogKey, sha256, verifierOf, verifyEd25519 } from './log-crypto.ts';
import { checkpointOfLine, linesOfFile, readLines } from './log-lines.ts';
import { TileFolderReader } from './tile-folder.ts';

export const LOG_FILE = 'log.ndjson';
export const CHECKPOINTS_FILE = 'checkpoints.ndjson';
export const KEY_FILE = 'log-key.json';
const MAX_CHECKPOINTS = 100_000;
const MAX_NOTE_FILE = 131_072;

/** What the auditor holds beside the export. */
export type VerifyOptions = {
  readonly olderCheckpoint?: string;
  /** Witnesses that must have cosigned the checkpoint, as C2SP verifier keys `name+id+base64`. */
  readonly witnesses?: readonly string[];
};

export type ExportVerification = Verification & {
  /** The note that the export ends with. */
  readonly checkpoint: string;
  /** Times, in seconds, that witnesses put to it. */
  readonly witnessed: readonly { readonly name: string; readonly seconds: number }[];
  /** Approvals whose passkey signature was verified. */
  readonly signedApprovals: number;
};

/** Reads a C2SP verifier key of a witness (signature type 4). Throws a RefusedError with exit code 2 for anything else. */
export function parseWitness(text: string): NoteVerifier {
  const [, name, id, base64] = /^([^\s+]+)\+([0-9a-f]{8})\+(\S+)$/.exec(text) ?? [];
  const key = base64 === undefined ? undefined : fromBase64(base64);
  const publicKey = key?.subarray(1);
  const isKnown = name !== undefined && key?.[0] === 4 && publicKey?.length === 32;
  if (!isKnown || Buffer.from(witnessKeyId(sha256, name, publicKey)).toString('hex') !== id) {
    throw new RefusedError(`\`${text}\` is no witness key (name+id+base64)`, 'countersign.cli.bad_key', EXIT.usage);
  }
  return { name, publicKey, sha256, verifyEd25519 };
}

function checkWitnesses(note: string, witnesses: readonly string[]) {
  const problems: Problem[] = [];
  const witnessed = witnesses.map(parseWitness).flatMap((witness) => {
    const cosigned = verifyCosignature(note, witness);
    if (cosigned) return [cosigned];
    const message = `\`${witness.name}\` did not cosign the checkpoint`;
    problems.push({ index: null, code: 'not_witnessed', message });
    return [];
  });
  return { problems, witnessed };
}

const joined = (verification: Verification, more: readonly Problem[]): Verification => ({
  ...verification,
  problems: [...verification.problems, ...more].sort((a, b) => (a.index ?? -1) - (b.index ?? -1)),
});

function finish(
  verification: Verification,
  checkpoint: string,
  { witnesses = [] }: VerifyOptions,
  signatures: ApproverSignatures,
): ExportVerification {
  const { problems, witnessed } = checkWitnesses(checkpoint, witnesses);
  return { ...joined(verification, problems), checkpoint, witnessed, signedApprovals: signatures.verified };
}

const older = ({ olderCheckpoint }: VerifyOptions) => (olderCheckpoint === undefined ? {} : { olderCheckpoint });

/** Verifies leaves whose checkpoint is known only at their end. */
function verifyLines(
  lines: Iterable<Buffer>,
  verifier: NoteVerifier,
  options: VerifyOptions,
  kept: readonly string[],
  tiles?: TileFolderReader,
): ExportVerification {
  const log = readLines(lines);
  const signatures = new ApproverSignatures();
  const verification = verifyBundle({
    leaves: log.leaves,
    get checkpoint() {
      return log.checkpoint();
    },
    checkpoints: kept,
    onEntry: signatures.take,
    ...(tiles ? { hashInTiles: tiles.hashInTiles, onLeaf: tiles.onLeaf } : {}),
    ...older(options),
    ...verifier,
  });
  tiles?.end();
  return finish(joined(verification, tiles?.problems ?? []), log.checkpoint(), options, signatures);
}

/** Verifies an exported log given as NDJSON text: leaves, then the checkpoint. */
export const verifyExport = (text: string, log: LogKey, options: VerifyOptions = {}): ExportVerification =>
  verifyLines(
    text.split('\n').map((line) => Buffer.from(line)),
    verifierOf(log),
    options,
    [],
  );

const readText = (file: string): string =>
  existsSync(file) && statSync(file).size <= MAX_NOTE_FILE ? readFileSync(file, 'utf8') : '';

function readCheckpoints(folder: string): string[] {
  const file = path.join(folder, CHECKPOINTS_FILE);
  if (!existsSync(file)) return [];
  const notes: string[] = [];
  for (const line of linesOfFile(file)) {
    if (line.length === 0) continue;
    notes.push(checkpointOfLine(line) ?? '');
    if (notes.length === MAX_CHECKPOINTS) break;
  }
  return notes;
}

/** A key file that names another key than the one trusted is a sign of a swapped folder. */
function checkKeyFile(folder: string, log: LogKey): Problem[] {
  const text = readText(path.join(folder, KEY_FILE));
  if (text === '') return [];
  try {
    const { publicKey, name } = JSON.parse(text) as Partial<LogKey>;
    if (publicKey === log.publicKey && name === log.name) return [];
  } catch {
    // A damaged key file is reported like one of another log.
  }
  const message = `\`${KEY_FILE}\` names another log or key than the trusted one`;
  return [{ index: null, code: 'other_key', message }];
}

function verifyTiles(folder: string, verifier: NoteVerifier, options: VerifyOptions, kept: readonly string[]) {
  const tiles = new TileFolderReader(folder);
  const checkpoint = readText(path.join(folder, 'checkpoint'));
  const signatures = new ApproverSignatures();
  const verification = verifyBundle({
    leaves: tiles.leaves(),
    checkpoint,
    checkpoints: kept,
    hashInTiles: tiles.hashInTiles,
    onLeaf: tiles.onLeaf,
    onEntry: signatures.take,
    ...older(options),
    ...verifier,
  });
  tiles.end();
  return finish(joined(verification, tiles.problems), checkpoint, options, signatures);
}

/**
 * Verifies a folder without any service: tiles, or JSON Lines, or both, and then they must be the same log. Throws a
 * RefusedError with exit code 2 only when there is no export in it; damage is a problem at its index.
 */
export function verifyFolder(folder: string, log: LogKey, options: VerifyOptions = {}): ExportVerification {
  const has = (name: string) => existsSync(path.join(folder, name));
  const hasLines = has(LOG_FILE);
  const hasTiles = has('tile/entries') || (has('checkpoint') && !hasLines);
  if (!hasTiles && !hasLines)
    throw new RefusedError(`\`${folder}\` holds no exported log`, 'countersign.cli.no_bundle', EXIT.usage);
  const verifier = verifierOf(log);
  const kept = readCheckpoints(folder);
  const withHashes = has('tile/0') && !hasTiles ? new TileFolderReader(folder) : undefined;
  const lines = hasLines
    ? verifyLines(linesOfFile(path.join(folder, LOG_FILE)), verifier, options, kept, withHashes)
    : undefined;
  const first = hasTiles ? verifyTiles(folder, verifier, options, kept) : lines;
  if (!first) throw new RefusedError('no export', 'countersign.cli.no_bundle', EXIT.usage);
  const more: Problem[] = checkKeyFile(folder, log);
  if (lines && first !== lines) {
    more.push(...lines.problems.map((problem) => ({ ...problem, message: `${LOG_FILE}: ${problem.message}` })));
    if (!equalBytes(lines.root, first.root))
      more.push({ index: null, code: 'mixed', message: `tiles and \`${LOG_FILE}\` are not the same log` });
  }
  return { ...first, ...joined(first, more) };
}
