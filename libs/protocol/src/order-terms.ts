import { createHash } from 'node:crypto';
import { lengthPrefixed } from './bytes.ts';
import { Obligations, Precondition, type WorkOrder } from './gen/countersign/v1/work.ts';

/** What an order may touch, beside the call itself. */
export type OrderTerms = Pick<WorkOrder, 'project' | 'profile' | 'obligations' | 'preconditions'>;

/**
 * SHA-256 of an order's terms; the receipt binds it, so that nobody widens the terms after the record. Both sides encode
 * anew: a field that one of them does not know makes the digests differ, and the order is refused.
 */
export function termsDigest(terms: OrderTerms): Uint8Array {
  const parts = [
    terms.project,
    terms.profile,
    Obligations.encode(Obligations.fromPartial(terms.obligations ?? {})).finish(),
    ...terms.preconditions.map((item) => Precondition.encode(Precondition.fromPartial(item)).finish()),
  ];
  return new Uint8Array(createHash('sha256').update(lengthPrefixed('countersign/terms/v1', parts)).digest());
}
