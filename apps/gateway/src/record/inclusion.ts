import { createHash } from 'node:crypto';
import { inclusionProof, leafHash } from '@countersign/merkle';
import type { AuditLog } from './audit-log.ts';

const sha256 = (data: Uint8Array): Uint8Array => new Uint8Array(createHash('sha256').update(data).digest());

const HASH_BYTES = 32;

/** An entry with the checkpoint that covers it and the audit path between both. */
export type Inclusion = {
  readonly leaf: Uint8Array;
  readonly index: number;
  readonly size: number;
  readonly proof: readonly Uint8Array[];
  readonly checkpoint: string;
};

/**
 * Proves that the entry with this id is in the log; undefined when it is not. Reads the whole log and keeps 32 bytes of each
 * entry, so it is for rare acts such as an enrolment.
 */
export async function proveInclusion(audit: AuditLog, entryId: string): Promise<Inclusion | undefined> {
  const hashes: Uint8Array[] = [];
  const wanted = JSON.stringify(entryId);
  let found: { leaf: Uint8Array; index: number } | undefined;
  let checkpoint = '';
  for await (const chunk of audit.exportLog()) {
    for (let at = 0; at < chunk.dropped.length; at += HASH_BYTES)
      hashes.push(chunk.dropped.subarray(at, at + HASH_BYTES));
    for (const leaf of chunk.leaves) {
      if (Buffer.from(leaf).includes(wanted) && idOf(leaf) === entryId) found = { leaf, index: hashes.length };
      hashes.push(leafHash(sha256, leaf));
    }
    if (chunk.checkpoint !== '') checkpoint = chunk.checkpoint;
  }
  if (!found || checkpoint === '') return undefined;
  const proof = inclusionProof(sha256, hashes, found.index, hashes.length);
  return { ...found, size: hashes.length, proof, checkpoint };
}

const idOf = (leaf: Uint8Array): unknown => (JSON.parse(new TextDecoder().decode(leaf)) as { id?: unknown }).id;
