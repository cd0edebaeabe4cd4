import { existsSync, readFileSync, rmSync } from 'node:fs';
import { FaultError } from '@countersign/kernel';
import { type Checkpoint, type TreeHead, verifySignedNote } from '@countersign/merkle';
import { ERROR_CODES, type Identity, rawPublicKey, verifySignature } from '@countersign/protocol';
import type pg from 'pg';
import { sha256 } from './sha256.ts';

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

function open(file: string, logName: string, logIdentity: Identity): Checkpoint {
  const opened = verifySignedNote(readFileSync(file, 'utf8'), {
    name: logName,
    publicKey: rawPublicKey(logIdentity.publicKey),
    sha256,
    verifyEd25519: (_key, message, signature) => verifySignature(logIdentity.publicKey, message, signature),
  });
  if (opened.ok) return opened.value;
  throw new FaultError(`checkpoint file \`${file}\` is refused: ${opened.error.message}`, {
    code: ERROR_CODES.auditRolledBack,
  });
}

/**
 * Compares the log with the checkpoint that was written outside of the database. Throws when the log is shorter (an old backup
 * was restored) or is another one. Returns what an operator accepted as lost; the caller records it and then forgets it.
 */
export async function checkOutside(
  options: { readonly file: string | undefined; readonly logName: string; readonly logIdentity: Identity },
  client: pg.ClientBase,
  head: TreeHead,
): Promise<AcceptedLoss | undefined> {
  const { file, logName, logIdentity } = options;
  if (file === undefined || !existsSync(file)) return undefined;
  const outside = open(file, logName, logIdentity);
  const loss = readLoss(file, outside.size);
  if (loss) return loss;
  if (outside.size > head.size)
    throw new FaultError(
      `the log has ${head.size} entries and had ${outside.size}; restore a newer backup, or accept the loss (docs/audit.md)`,
      { code: ERROR_CODES.auditRolledBack },
    );
  const { rows } = await client.query<{ note: string }>('select note from audit.checkpoint where size = $1', [
    outside.size,
  ]);
  const text = readFileSync(file, 'utf8');
  if (rows[0]?.note !== text)
    throw new FaultError(`the log is not the one of checkpoint file \`${file}\`; restore its own database`, {
      code: ERROR_CODES.auditRolledBack,
    });
  return undefined;
}
