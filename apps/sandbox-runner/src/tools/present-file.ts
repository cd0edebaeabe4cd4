import { type BigIntStats, constants } from 'node:fs';
import { type FileHandle, lstat, open } from 'node:fs/promises';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { accountUid } from '../sandbox/account.ts';
import { errnoOf, refuse } from '../sandbox/sandbox-error.ts';
import { digestOf, digestOfFile, MAX_DIGEST_BYTES } from './digest.ts';

/** Largest file whose content a change keeps, and the largest that can be edited. */
export const MAX_KEPT_BYTES = 8 * 1024 * 1024;

const PERMISSIONS = 0o777n;
const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** A regular file as it is now. `bytes` is absent when it is larger than what is kept. */
export type PresentFile = {
  readonly mode: number;
  readonly size: number;
  readonly digest: Uint8Array;
  readonly bytes?: Uint8Array;
  /** Differs after any change of the file or of what lies under its name. */
  readonly stamp: string;
};

function checkKind(found: BigIntStats, named: string): void {
  if (found.isSymbolicLink()) refuse(ERROR_CODES.changedSinceRequest, `\`${named}\` became a link; submit it again`);
  if (!found.isFile()) refuse(ERROR_CODES.toolFailed, `\`${named}\` is not a regular file`);
  if (Number(found.uid) !== accountUid()) refuse(ERROR_CODES.badOwner, `\`${named}\` belongs to uid ${found.uid}`);
  if (found.nlink > 1n) {
    refuse(
      ERROR_CODES.toolFailed,
      `\`${named}\` has ${found.nlink} hard links; a change would part them, so use \`bash\` for it`,
    );
  }
}

async function readAtMost(handle: FileHandle, limit: number): Promise<Uint8Array | undefined> {
  const buffer = Buffer.alloc(Math.min(limit, (await handle.stat()).size) + 1);
  let length = 0;
  for (;;) {
    const { bytesRead } = await handle.read({ buffer, offset: length, length: buffer.length - length });
    if (bytesRead === 0) return buffer.subarray(0, length);
    length += bytesRead;
    if (length === buffer.length) return undefined;
  }
}

const stampOf = ({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string =>
  [dev, ino, size, mtimeNs, ctimeNs].join(':');

async function lookUp(target: string): Promise<BigIntStats | undefined> {
  return lstat(target, { bigint: true }).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  });
}

/** Stamp of what lies under the name now; undefined when nothing does. */
export async function stampAt(target: string): Promise<string | undefined> {
  const found = await lookUp(target);
  return found && stampOf(found);
}

/**
 * The regular file of that name; undefined when there is none. Refuses links, hard links, other kinds and files of another
 * account. `target` is a name in an open folder or a real path; `named` is shown in refusals.
 */
export async function presentFile(target: string, named: string): Promise<PresentFile | undefined> {
  const found = await lookUp(target);
  if (!found) return undefined;
  checkKind(found, named);
  await using handle = await open(target, FLAGS);
  const opened = await handle.stat({ bigint: true });
  checkKind(opened, named);
  const size = Number(opened.size);
  const facts = { mode: Number(opened.mode & PERMISSIONS), size, stamp: stampOf(opened) };
  const bytes = size <= MAX_KEPT_BYTES ? await readAtMost(handle, MAX_KEPT_BYTES) : undefined;
  if (bytes) return { ...facts, size: bytes.length, digest: digestOf(bytes), bytes };
  const digest = await digestOfFile(handle);
  return digest
    ? { ...facts, digest }
    : refuse(ERROR_CODES.toolFailed, `\`${named}\` is larger than ${MAX_DIGEST_BYTES} bytes`);
}
