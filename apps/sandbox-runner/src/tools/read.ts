import { err, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { refuseHostRoot } from '../sandbox/account.ts';
import { refusalOf, refuse, type SandboxError } from '../sandbox/sandbox-error.ts';
import { type FileScope, openChecked, refuseMasked, resolvePath } from './real-path.ts';

/** Most bytes that `read` returns. */
export const MAX_READ_BYTES = 700 * 1024;
/** Furthest that `read` goes into a file to find lines. */
const MAX_SCAN_BYTES = 256 * 1024 * 1024;
const CHUNK_BYTES = 256 * 1024;
const NEWLINE = 0x0a;

export type ReadInput = FileScope & {
  readonly path: string;
  /** Number of the first line, from 1. */
  readonly firstLine?: number;
  /** Most lines that are returned. */
  readonly maxLines?: number;
};

type Source = AsyncIterable<Uint8Array>;

/** Collects the wanted lines; the file is read only as far as they go. */
async function collect(source: Source, { firstLine = 1, maxLines = Infinity }: ReadInput): Promise<Uint8Array[]> {
  const kept: Uint8Array[] = [];
  let line = 1;
  let size = 0;
  for await (const chunk of source) {
    let from = 0;
    while (from < chunk.length) {
      const wholeRest = line >= firstLine && maxLines === Infinity;
      const end = wholeRest ? -1 : chunk.indexOf(NEWLINE, from);
      const to = end === -1 ? chunk.length : end + 1;
      if (line >= firstLine) {
        kept.push(chunk.subarray(from, to));
        size += to - from;
      }
      if (size > MAX_READ_BYTES) return kept;
      if (end !== -1) line += 1;
      if (line >= firstLine + maxLines) return kept;
      from = to;
    }
  }
  return kept;
}

/**
 * Content of a regular file, or lines of it, read as the account of this process. Refuses masked paths and what is over
 * the bound.
 */
export async function readFileTool(input: ReadInput): Promise<Result<Uint8Array, SandboxError>> {
  try {
    refuseHostRoot();
    const resolved = await resolvePath(input.path, input);
    await refuseMasked(resolved, input);
    if (!resolved.exists) refuse(ERROR_CODES.toolFailed, `\`${resolved.named}\` does not exist`);
    await using handle = await openChecked(resolved);
    const source = handle.createReadStream({ autoClose: false, highWaterMark: CHUNK_BYTES, end: MAX_SCAN_BYTES });
    const content = Buffer.concat(await collect(source, input));
    if (content.length <= MAX_READ_BYTES) return ok(content);
    return refuse(
      ERROR_CODES.toolFailed,
      `\`${resolved.named}\` is larger than ${MAX_READ_BYTES} bytes; read parts with \`first_line\` and \`max_lines\``,
    );
  } catch (error) {
    return err(refusalOf(error, ERROR_CODES.toolFailed));
  }
}
