import { type Problem, verifyConsistency, verifySignedNote } from '@countersign/merkle';
import type { Command } from 'commander';
import { z } from 'zod';
import { type LogKey, sha256, verifierOf } from '../bundle/log-crypto.ts';
import { accepted, localGateway } from '../local-installation.ts';
import { RefusedError } from '../output.ts';

const lineSchema = z.object({
  entries: z.int(),
  problems: z.array(z.object({ index: z.int().nullable(), code: z.string(), message: z.string() })),
  finished: z.boolean().optional(),
  checkpoint: z.string().optional(),
  moreProblems: z.int().optional(),
});
const consistencySchema = z.object({ proof: z.array(z.base64()), size: z.int(), checkpoint: z.string() });

export type DatabaseCheck = {
  readonly problems: readonly Problem[];
  readonly more: number;
  readonly entries: number;
  readonly checkpoint: string;
};

/** Has the running installation compare its database with the tree. Refused when the check does not come to its end. */
export async function readDatabaseCheck(command: Command): Promise<DatabaseCheck> {
  const { body } = accepted(await localGateway(command, 'local-auditor').auditStream('check'));
  const decoder = new TextDecoder();
  const problems: Problem[] = [];
  let rest = '';
  let end: z.infer<typeof lineSchema> | undefined;
  for await (const chunk of body) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      end = lineSchema.parse(JSON.parse(line));
      problems.push(...end.problems);
    }
  }
  if (end?.finished)
    return { problems, more: end.moreProblems ?? 0, entries: end.entries, checkpoint: end.checkpoint ?? '' };
  throw new RefusedError('the check broke off; run it again', 'countersign.cli.check_cut');
}

/** What the running installation says against a verified copy: its database, and that its log extends the copy. */
export async function checkOnline(
  command: Command,
  copy: { readonly size: number; readonly root: Uint8Array },
  log: LogKey,
): Promise<Problem[]> {
  const { problems } = await readDatabaseCheck(command);
  if (copy.size === 0) return [...problems];
  const online: Problem = { index: null, code: 'online', message: 'the running log does not extend this copy' };
  const answer = await localGateway(command, 'local-auditor').audit(`proofs/consistency?from=${copy.size}`);
  if (!answer.ok) return [...problems, { ...online, message: `${online.message}: ${answer.error.detail}` }];
  const { proof, checkpoint } = consistencySchema.parse(answer.value);
  const note = verifySignedNote(checkpoint, verifierOf(log));
  const extendsCopy =
    note.ok &&
    verifyConsistency(sha256, {
      oldSize: copy.size,
      newSize: note.value.size,
      oldRoot: copy.root,
      newRoot: note.value.root,
      proof: proof.map((hash) => new Uint8Array(Buffer.from(hash, 'base64'))),
    });
  return extendsCopy ? [...problems] : [...problems, online];
}
