import { err, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';
import { refuseHostRoot } from '../sandbox/account.ts';
import { refusalOf, refuse, type SandboxError } from '../sandbox/sandbox-error.ts';
import { type FileScope, openChecked, refuseMasked, resolvePath } from './real-path.ts';

/** Largest file that `read` returns. */
export const MAX_READ_BYTES = 700 * 1024;

/** Content of a regular file, read as the account of this process. Refuses masked paths and files over the bound. */
export async function readFileTool(
  input: FileScope & { readonly path: string },
): Promise<Result<Uint8Array, SandboxError>> {
  try {
    refuseHostRoot();
    const resolved = await resolvePath(input.path, input);
    await refuseMasked(resolved, input);
    if (!resolved.exists) refuse(ERROR_CODES.toolFailed, `\`${resolved.named}\` does not exist`);
    await using handle = await openChecked(resolved);
    const buffer = Buffer.alloc(MAX_READ_BYTES + 1);
    let length = 0;
    while (length < buffer.length) {
      const { bytesRead } = await handle.read({ buffer, offset: length, length: buffer.length - length });
      if (bytesRead === 0) return ok(buffer.subarray(0, length));
      length += bytesRead;
    }
    return refuse(
      ERROR_CODES.toolFailed,
      `\`${resolved.named}\` is larger than ${MAX_READ_BYTES} bytes; read parts with \`bash\``,
    );
  } catch (error) {
    return err(refusalOf(error, ERROR_CODES.toolFailed));
  }
}
