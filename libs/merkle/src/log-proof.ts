import { err, ok, type Result } from '@countersign/kernel';
import {
  type Checkpoint,
  fromBase64,
  type NoteError,
  type NoteVerifier,
  toBase64,
  verifySignedNote,
} from './checkpoint.ts';
import { leafHash, verifyInclusion } from './tree.ts';

/** C2SP tlog-proof: where an entry is, its audit path, and the checkpoint that it is proven against. */
export type LogProof = {
  readonly index: number;
  readonly proof: readonly Uint8Array[];
  readonly checkpoint: string;
  /** Not vouched for by anything. */
  readonly extra?: Uint8Array;
};

const HEADER = 'c2sp.org/tlog-proof@v1';
const HASH_BYTES = 32;
/** An audit path has at most one hash for each bit of the size. */
const MAX_PATH = 64;
const MAX_PROOF = 131_072;

/** Text of a proof, to be kept in a file `*.tlog-proof`. Throws for what could not be read back. */
export function formatLogProof({ index, proof, checkpoint, extra }: LogProof): string {
  const text = [
    HEADER,
    ...(extra === undefined ? [] : [`extra ${toBase64(extra)}`]),
    `index ${index}`,
    ...proof.map(toBase64),
    '',
    checkpoint,
  ].join('\n');
  if (!parseLogProof(text).ok) throw new RangeError('a proof needs an index, hashes of 32 bytes and a checkpoint');
  return text;
}

/** Reads a proof. Does not verify. */
export function parseLogProof(text: string): Result<LogProof, NoteError> {
  const malformed = err({ code: 'malformed_note' as const, message: 'not a tlog-proof' });
  const end = text.indexOf('\n\n');
  if (end < 0 || text.length > MAX_PROOF) return malformed;
  const [header, ...lines] = text.slice(0, end).split('\n');
  const extraLine = lines[0]?.startsWith('extra ') ? lines.shift() : undefined;
  const extra = extraLine === undefined ? undefined : fromBase64(extraLine.slice(6));
  const index = /^index (0|[1-9][0-9]{0,15})$/.exec(lines.shift() ?? '')?.[1];
  const proof = lines.map(fromBase64);
  const isPath = proof.length <= MAX_PATH && proof.every((hash) => hash?.length === HASH_BYTES);
  if (header !== HEADER || index === undefined || !isPath || (extraLine !== undefined && !extra)) return malformed;
  return ok({
    index: Number(index),
    proof: proof as Uint8Array[],
    checkpoint: text.slice(end + 2),
    ...(extra === undefined ? {} : { extra }),
  });
}

/** Verifies that `leaf` is the entry that `text` proves to be in the log of `verifier`. */
export function verifyLogProof(
  text: string,
  leaf: Uint8Array,
  verifier: NoteVerifier,
): Result<
  { readonly index: number; readonly checkpoint: Checkpoint },
  NoteError | { code: 'not_included'; message: string }
> {
  const parsed = parseLogProof(text);
  if (!parsed.ok) return parsed;
  const checkpoint = verifySignedNote(parsed.value.checkpoint, verifier);
  if (!checkpoint.ok) return checkpoint;
  const { index, proof } = parsed.value;
  const { size, root } = checkpoint.value;
  const isIncluded = verifyInclusion(verifier.sha256, {
    leaf: leafHash(verifier.sha256, leaf),
    index,
    size,
    proof,
    root,
  });
  if (!isIncluded)
    return err({ code: 'not_included', message: `entry is not at index ${index} of the checkpoint's tree` });
  return ok({ index, checkpoint: checkpoint.value });
}
