import { err, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { refusalOf, type SandboxError } from '../sandbox/sandbox-error.ts';
import { readFileTool } from './read.ts';
import { type FileScope, openChecked, refuseMasked, resolvePath } from './real-path.ts';

/** A file with a zero byte in its head is no text. */
const HEAD_BYTES = 8_192;

async function isBinary(path: string, scope: FileScope): Promise<boolean> {
  const resolved = await resolvePath(path, scope);
  await refuseMasked(resolved, scope);
  await using handle = await openChecked(resolved);
  const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(HEAD_BYTES), position: 0 });
  return buffer.subarray(0, bytesRead).includes(0);
}

/** Text of a script for the person who decides; empty for a file that is no UTF-8 text. Refuses what `read` refuses. */
export async function scriptText(path: string, scope: FileScope): Promise<Result<string, SandboxError>> {
  try {
    if (await isBinary(path, scope)) return ok('');
    const content = await readFileTool({ ...scope, path });
    return content.ok ? ok(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content.value)) : content;
  } catch (error) {
    return error instanceof TypeError ? ok('') : err(refusalOf(error, ERROR_CODES.toolFailed));
  }
}
