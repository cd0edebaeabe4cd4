import { lengthPrefixed } from './bytes.ts';
import type { Receipt } from './gen/countersign/v1/work.ts';
import { type Identity, verifySignature } from './identity.ts';

const signedBytes = (receipt: Receipt): Uint8Array =>
  lengthPrefixed('countersign/receipt/v2', [
    receipt.callId,
    receipt.orderId,
    receipt.host,
    receipt.callDigest,
    receipt.entryId,
    receipt.logIndex,
    receipt.leafHash,
    receipt.decidedBy,
    receipt.assertionsDigest,
    receipt.issuer,
    receipt.termsDigest,
  ]);

/** Signs that a decision and its dispatch are durable. Only the audit service calls this, and only after COMMIT. */
export function signReceipt(identity: Identity, fields: Omit<Receipt, 'issuer' | 'signature'>): Receipt {
  const receipt: Receipt = { ...fields, issuer: identity.publicKey, signature: new Uint8Array() };
  return { ...receipt, signature: identity.sign(signedBytes(receipt)) };
}

/** True when `receipt` was signed by the audit service, whose key is `auditKey` or passes it. */
export const verifyReceipt = (receipt: Receipt, auditKey: string | ((key: string) => boolean)): boolean =>
  (typeof auditKey === 'string' ? receipt.issuer === auditKey : auditKey(receipt.issuer)) &&
  verifySignature(receipt.issuer, signedBytes(receipt), receipt.signature);
