import { Buffer } from 'node:buffer';
import { FileChange as Sent } from '@countersign/protocol';
import type { FileChange, FileState } from '../changes/file-change.ts';

const stateOf = (state: FileState | null) =>
  state === null ? undefined : { digest: Buffer.from(state.digest, 'hex'), size: BigInt(state.size), mode: state.mode };

/** A change as an outcome carries it. */
export const sentChange = ({ id, path, before, after, rollsBack, uncertain }: FileChange): Sent =>
  Sent.fromPartial({
    id,
    path,
    before: stateOf(before),
    after: stateOf(after),
    rollsBack: rollsBack ?? '',
    uncertain: uncertain ?? false,
  });
