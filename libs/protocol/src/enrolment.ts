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

/** What a member signs to replace its own keys. */
export type RotationFacts = {
  readonly role: string;
  readonly id: string;
  /** The newest public key of the member. */
  readonly oldKey: string;
  readonly signKey: string;
  readonly sealKey: string;
};

const rotationBytes = ({ role, id, oldKey, signKey, sealKey }: RotationFacts): Uint8Array =>
  lengthPrefixed('countersign/rotate/v1', [role, id, oldKey, signKey, sealKey]);

/** Signs a rotation, once with the present key and once with the new one. */
export const signRotation = (identity: Identity, facts: RotationFacts): Uint8Array =>
  identity.sign(rotationBytes(facts));

/** True when the present key agrees (`consent`) and the new key is held by the sender (`proof`). */
export const verifyRotation = (
  facts: RotationFacts,
  { consent, proof }: { readonly consent: Uint8Array; readonly proof: Uint8Array },
): boolean =>
  verifySignature(facts.oldKey, rotationBytes(facts), consent) &&
  verifySignature(facts.signKey, rotationBytes(facts), proof);
