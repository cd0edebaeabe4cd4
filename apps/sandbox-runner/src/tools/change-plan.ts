import { Buffer } from 'node:buffer';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { refuse } from '../sandbox/sandbox-error.ts';
import { editText } from './edit-text.ts';
import { MAX_KEPT_BYTES, type PresentFile } from './present-file.ts';
import { decodeText, encodeText } from './text-encoding.ts';

/**
 * What a file will hold, from what it holds now; `absent` for a file that goes away. Throws a SandboxRefusal when the
 * change does not fit. Inspection and execution use the same plan, so that the diff that was shown is what is done.
 */
export type ChangePlan = {
  /** May make a file, and the folders above it. */
  readonly creates: boolean;
  /** Permissions of a file that it makes. */
  readonly newFileMode?: number;
  readonly next: (present: PresentFile | undefined, named: string) => Uint8Array | 'absent';
};

/** Replaces the whole content, exactly as given, in UTF-8. */
export const planWrite = (content: string): ChangePlan => ({
  creates: true,
  next: () => Buffer.from(content, 'utf8'),
});

function edited(present: PresentFile | undefined, named: string, oldText: string, newText: string): Uint8Array {
  if (!present) return refuse(ERROR_CODES.toolFailed, `\`${named}\` does not exist; use \`write\` to make it`);
  if (!present.bytes) return refuse(ERROR_CODES.toolFailed, `\`${named}\` is larger than ${MAX_KEPT_BYTES} bytes`);
  const decoded = decodeText(present.bytes);
  if (!decoded) return refuse(ERROR_CODES.toolFailed, `\`${named}\` is not valid UTF-8 text; it is not edited`);
  const result = editText(decoded.text, oldText, newText);
  if (result.ok) return encodeText(result.value, decoded);
  const reason =
    result.error === 'not_found'
      ? 'does not hold `oldText`; read it again'
      : 'holds `oldText` more than once; add the lines around it';
  return refuse(ERROR_CODES.toolFailed, `\`${named}\` ${reason}`);
}

/** Replaces the one occurrence of a text. Encoding, byte order mark, line endings and every other byte are kept. */
export const planEdit = (oldText: string, newText: string): ChangePlan => ({
  creates: false,
  next: (present, named) => edited(present, named, oldText, newText),
});

/** Removes the file. */
export const planDelete = (): ChangePlan => ({
  creates: false,
  next: (present, named) => (present ? 'absent' : refuse(ERROR_CODES.toolFailed, `\`${named}\` does not exist`)),
});
