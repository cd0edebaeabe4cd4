import { existsSync, readFileSync } from 'node:fs';
import { type ApproverList, openApproverList } from '@countersign/protocol';
import { replaceFile } from '@countersign/service-kit';

const MAX_BYTES = 8 * 1_048_576;

/**
 * The newest approver list that this host has seen, kept in a file of mode 0600. INVARIANT: it never goes back to an older
 * version, so that a passkey that was taken off the list stays off it.
 */
export class KnownApprovers {
  private readonly file: string;
  private readonly rootKey: string;
  private newest: ApproverList | undefined;

  /** Throws when the kept list does not verify: a host that lost its list must not begin anew in silence. */
  constructor(file: string, rootKey: string) {
    this.file = file;
    this.rootKey = rootKey;
    if (!existsSync(file)) return;
    const opened = openApproverList(readFileSync(file), rootKey);
    if (!opened.ok) throw new TypeError(`the kept approver list is refused: ${opened.error.message}`);
    this.newest = opened.value;
  }

  current(): ApproverList | undefined {
    return this.newest;
  }

  /** Takes a list that came with an order; one that does not verify or is not newer changes nothing. */
  take(bytes: Uint8Array): void {
    if (bytes.length === 0 || bytes.length > MAX_BYTES) return;
    const opened = openApproverList(bytes, this.rootKey);
    if (!opened.ok || opened.value.version <= (this.newest?.version ?? 0)) return;
    replaceFile(this.file, bytes);
    this.newest = opened.value;
  }
}
