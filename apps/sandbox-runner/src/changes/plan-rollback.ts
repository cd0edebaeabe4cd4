import { Buffer } from 'node:buffer';
import { ERROR_CODES } from '@countersign/protocol/error-codes';
import { refuse } from '../sandbox/sandbox-error.ts';
import type { ChangePlan } from '../tools/change-plan.ts';
import type { PresentFile } from '../tools/present-file.ts';
import { decodeText, encodeText } from '../tools/text-encoding.ts';
import type { BlobStore } from './blob-store.ts';
import type { FileChange, FileState } from './file-change.ts';
import { mergeLines } from './merge-lines.ts';

type Kept = Uint8Array | 'absent' | undefined;

const keptOf = async (blobs: BlobStore, state: FileState | null): Promise<Kept> =>
  state === null ? 'absent' : blobs.get(state.digest);

const isAs = (present: PresentFile | undefined, state: FileState | null): boolean =>
  present ? state?.digest === Buffer.from(present.digest).toString('hex') : state === null;

/** The present content without the change; undefined when later work touches the same lines or nothing can be compared. */
function withoutChange(present: PresentFile | undefined, before: Kept, after: Kept): Uint8Array | undefined {
  if (!present?.bytes || !(before instanceof Uint8Array) || !(after instanceof Uint8Array)) return undefined;
  const [now, old, made] = [present.bytes, before, after].map(decodeText);
  if (!now || !old || !made || old.encoding !== now.encoding || made.encoding !== now.encoding) return undefined;
  const merged = mergeLines(made.text, now.text, old.text);
  return merged === undefined ? undefined : encodeText(merged, now);
}

/**
 * Takes a change back. A file that is as the change left it becomes what it was. Work that came later is kept where it
 * touches other lines; where it does not, the rollback is refused, or with `force` replaces it (the rollback is a change
 * of its own and can be taken back in turn). Throws a SandboxRefusal when the content before the change is not kept.
 */
export async function planRollback(change: FileChange, blobs: BlobStore, force: boolean): Promise<ChangePlan> {
  const before = await keptOf(blobs, change.before);
  const after = await keptOf(blobs, change.after);
  if (before === undefined) {
    refuse(ERROR_CODES.toolFailed, `the content of \`${change.path}\` before \`${change.id}\` is not kept any more`);
  }
  const next: ChangePlan['next'] = (present, named) => {
    if (isAs(present, change.after) || force) return before;
    if (isAs(present, change.before)) refuse(ERROR_CODES.toolFailed, `\`${named}\` is as it was before the change`);
    return (
      withoutChange(present, before, after) ??
      refuse(
        ERROR_CODES.laterWork,
        `\`${named}\` was changed again after \`${change.id}\`; use \`force\` to replace that`,
      )
    );
  };
  return { creates: before !== 'absent', next, ...(change.before ? { newFileMode: change.before.mode } : {}) };
}
