import { canonicalJson } from '@countersign/merkle';
import { sha256 } from './sha256.ts';

/** A version of a document, as the entry that it came with commits to it (`detail.documents`). */
export type CommittedDocument = {
  readonly kind: string;
  readonly key: string;
  readonly version: number;
  /** Hex SHA-256 of the value's RFC 8785 bytes: the database gives keys and numbers back in a form of its own. */
  readonly sha256: string;
};

/** Digest of a document's value; empty for what has no canonical form, which no document has. */
export function documentDigest(value: unknown): string {
  const bytes = canonicalJson(value);
  return bytes ? Buffer.from(sha256(bytes)).toString('hex') : '';
}

/** What an entry commits to; empty for one that commits to nothing. */
export function committedDocuments(detail: { readonly [key: string]: unknown } | undefined): CommittedDocument[] {
  return Array.isArray(detail?.documents) ? (detail.documents as CommittedDocument[]) : [];
}
