import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { type ApproverList, approvalChallenge, PasskeyAssertion } from '@countersign/protocol';

/** What a test changes of an otherwise good assertion. */
export type PasskeyChange = {
  readonly origin?: string;
  readonly rpId?: string;
  readonly type?: string;
  readonly crossOrigin?: boolean;
  readonly flags?: number;
  readonly challenge?: Uint8Array;
  /** Place of the call in a tree whose challenge is signed. */
  readonly tree?: PasskeyAssertion['tree'];
};

/** An authenticator in software that speaks WebAuthn's formats, with an ES256 key. */
export class SoftwarePasskey {
  readonly credentialId = randomBytes(32);
  private readonly keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  private readonly rpId: string;
  private readonly origin: string;

  constructor(rpId: string, origin: string) {
    this.rpId = rpId;
    this.origin = origin;
  }

  /** The line of the approver list for a person with this passkey. */
  approver(person: string): ApproverList['approvers'][number] {
    const { x = '', y = '' } = this.keys.publicKey.export({ format: 'jwk' });
    const key = { kty: 'EC', crv: 'P-256', x, y } as const;
    return { person, credentialId: this.credentialId.toString('base64url'), key };
  }

  /** Signs a statement, as a browser with this authenticator would. */
  assert(nonce: Uint8Array, statement: Uint8Array, change: PasskeyChange = {}): PasskeyAssertion {
    const challenge = Buffer.from(change.challenge ?? approvalChallenge(nonce, statement)).toString('base64url');
    const clientData = {
      type: change.type ?? 'webauthn.get',
      challenge,
      origin: change.origin ?? this.origin,
      crossOrigin: change.crossOrigin ?? false,
    };
    const clientDataJson = Buffer.from(JSON.stringify(clientData));
    const rpIdHash = createHash('sha256')
      .update(change.rpId ?? this.rpId)
      .digest();
    const authenticatorData = Buffer.concat([rpIdHash, Buffer.from([change.flags ?? 0x05]), Buffer.alloc(4)]);
    const signed = Buffer.concat([authenticatorData, createHash('sha256').update(clientDataJson).digest()]);
    const signature = sign('sha256', signed, this.keys.privateKey);
    const { credentialId } = this;
    return PasskeyAssertion.fromPartial({
      nonce,
      statement,
      credentialId,
      clientDataJson,
      authenticatorData,
      signature,
      ...(change.tree ? { tree: change.tree } : {}),
    });
  }
}
