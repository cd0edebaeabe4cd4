import { createHash } from 'node:crypto';
import { lengthPrefixed } from './bytes.ts';
import { type Identity, rawPublicKey, verifySignature } from './identity.ts';

/** What an operator hands to whoever enrols: works once. Secret. */
export type Invitation = {
  readonly id: string;
  readonly secret: string;
  /** SHA-256 of the organisation root key, base64url. */
  readonly rootFingerprint: string;
};

const TEXT = /^csi_(inv_[0-9a-f]{32})_([\w-]{43})_([\w-]{43})$/;

export const formatInvitation = ({ id, secret, rootFingerprint }: Invitation): string =>
  `csi_${id}_${secret}_${rootFingerprint}`;

/** Reads an invitation; undefined for anything else. */
export function parseInvitation(text: string): Invitation | undefined {
  const [, id, secret, rootFingerprint] = TEXT.exec(text) ?? [];
  return id && secret && rootFingerprint ? { id, secret, rootFingerprint } : undefined;
}

/** SHA-256 of a public root key, base64url. Throws a TypeError when it is no public NKey. */
export const rootFingerprint = (rootKey: string): string =>
  createHash('sha256').update(rawPublicKey(rootKey)).digest('base64url');

export type EnrolmentFacts = {
  readonly invitation: string;
  readonly role: string;
  readonly id: string;
  readonly signKey: string;
  readonly sealKey: string;
};

const provenBytes = ({ invitation, role, id, signKey, sealKey }: EnrolmentFacts): Uint8Array =>
  lengthPrefixed('countersign/enrol/v1', [invitation, role, id, signKey, sealKey]);

/** Proves that the sender holds the key that it enrols. */
export const proveEnrolment = (identity: Identity, facts: EnrolmentFacts): Uint8Array =>
  identity.sign(provenBytes(facts));

export const verifyEnrolment = (facts: EnrolmentFacts, proof: Uint8Array): boolean =>
  verifySignature(facts.signKey, provenBytes(facts), proof);
