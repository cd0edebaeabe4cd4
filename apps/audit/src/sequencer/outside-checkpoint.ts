import { existsSync, readFileSync, rmSync } from 'node:fs';
import { FaultError } from '@countersign/kernel';
import { type Checkpoint, equalBytes, type NoteVerifier, type TreeHead, verifySignedNote } from '@countersign/merkle';
import { ERROR_CODES } from '@countersign/protocol';
import type pg from 'pg';

/** An operator's word, in the file `<checkpoint file>.accept-loss`, that entries up to `size` are lost. */
export type AcceptedLoss = { readonly size: number; readonly subject: string; readonly reason: string };
const lossFile = (file: string): string => `${file}.accept-loss`;

function readLoss(file: string, size: number): AcceptedLoss | undefined {
  if (!existsSync(lossFile(file))) return undefined;
  const loss = JSON.parse(readFileSync(lossFile(file), 'utf8')) as Partial<AcceptedLoss>;
  const { subject, reason } = loss;
  if (loss.size !== size || typeof subject !== 'string' || typeof reason !== 'string') return undefined;
  return { size, subject, reason };
}

/** Removes the operator's word once it is recorded. */
export const forgetLoss = (file: string): void => rmSync(lossFile(file), { force: true });

/** A checkpoint that this log signed, found outside of the database. */
type Outside = { readonly checkpoint: Checkpoint; readonly where: string };

const rolledBack = (message: string): FaultError => new FaultError(message, { code: ERROR_CODES.auditRolledBack });

function open(file: string, verifier: NoteVerifier): Outside {
  const opened = verifySignedNote(readFileSync(file, 'utf8'), verifier);
  if (opened.ok) return { checkpoint: opened.value, where: `checkpoint file \`${file}\`` };
  throw rolledBack(`checkpoint file \`${file}\` is refused: ${opened.error.message}`);
}

/** Root of the log at `size`, as the checkpoint says it that the database holds; undefined when it holds none of that size. */
async function storedRoot(
  client: pg.ClientBase,
  size: number,
  verifier: NoteVerifier,
): Promise<Uint8Array | undefined> {
  const { rows } = await client.query<{ note: string }>('select note from audit.checkpoint where size = $1', [size]);
  const stored = rows[0] && verifySignedNote(rows[0].note, verifier);
  return stored?.ok ? stored.value.root : undefined;
}

/**
 * Compares the log with the checkpoint file, which was written outside of the database, and with what was published. Throws
 * when the log is shorter (an old backup was restored) or is another one. Returns what an operator accepted as lost, which
 * must name the largest size that is known outside; the caller records it and then forgets it.
 */
export async function checkOutside(
  options: {
    readonly file: string | undefined;
    readonly verifier: NoteVerifier;
    readonly published: readonly Outside[];
  },
  client: pg.ClientBase,
  head: TreeHead,
): Promise<AcceptedLoss | undefined> {
  const { file, verifier, published } = options;
  const known = [...published];
  if (file !== undefined && existsSync(file)) known.push(open(file, verifier));
  const most = Math.max(0, ...known.map(({ checkpoint }) => checkpoint.size));
  const loss = file !== undefined && most > 0 ? readLoss(file, most) : undefined;
  if (loss) return loss;
  for (const { checkpoint, where } of known) {
    if (checkpoint.size > head.size)
      throw rolledBack(
        `the log has ${head.size} entries and had ${most}, as ${where} says; restore a newer backup, or accept the loss (docs/audit.md)`,
      );
    const root = await storedRoot(client, checkpoint.size, verifier);
    if (!root || !equalBytes(root, checkpoint.root))
      throw rolledBack(`the log is not the one of ${where}; restore its own database`);
  }
  return undefined;
}
