import { createHash } from 'node:crypto';
import { formatCheckpoint, formatSignedNote, noteKeyId, rootOf, type TreeHead } from '@countersign/merkle';
import { type Identity, rawPublicKey } from '@countersign/protocol';

const sha256 = (data: Uint8Array): Uint8Array => new Uint8Array(createHash('sha256').update(data).digest());

/** C2SP signed checkpoint of a tree head. */
export function signCheckpoint(head: TreeHead, logName: string, logIdentity: Identity): string {
  const text = formatCheckpoint({ origin: logName, size: head.size, root: rootOf(sha256, head) });
  const keyId = noteKeyId(sha256, logName, rawPublicKey(logIdentity.publicKey));
  const signature = logIdentity.sign(new TextEncoder().encode(text));
  return formatSignedNote(text, [{ name: logName, keyId, signature }]);
}
