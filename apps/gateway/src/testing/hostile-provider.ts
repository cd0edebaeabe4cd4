import { createHash } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';

/**
 * What the provider does wrong; `slow` never answers the token request, `used_code` refuses the code as one that was used
 * before, `rotated` signs with a new key of its key set, `at_hash` is of another access token.
 */
export type Fault =
  | 'none'
  | 'at_hash'
  | 'right_at_hash'
  | 'not_yet'
  | 'no_subject'
  | 'no_id_token'
  | 'used_code'
  | 'nonce'
  | 'expired'
  | 'signature'
  | 'audience'
  | 'issuer'
  | 'unsigned'
  | 'stale'
  | 'no_auth_time'
  | 'symmetric'
  | 'party'
  | 'rotated'
  | 'slow';

/** Left half of the hash over an access token, as OpenID Connect Core 3.1.3.6 has it for RS256. */
const hashOf = (accessToken: string): string =>
  createHash('sha256').update(accessToken).digest().subarray(0, 16).toString('base64url');

/** A local OpenID provider that speaks the real protocol and lies as it is told. */
export class HostileProvider {
  fault: Fault = 'none';
  claims: Readonly<Record<string, unknown>> = {};
  private server!: Server;
  private nonce = '';
  private readonly keys = generateKeyPair('RS256');
  private readonly others = generateKeyPair('RS256');

  async start(): Promise<void> {
    this.server = createServer((request, response) => {
      const url = new URL(request.url ?? '/', this.issuer);
      const json = (body: object) => response.setHeader('content-type', 'application/json').end(JSON.stringify(body));
      if (url.pathname === '/.well-known/openid-configuration') json(this.metadata());
      else if (url.pathname === '/jwks') void this.keySet().then(json);
      else if (url.pathname === '/token' && this.fault === 'used_code') {
        response.statusCode = 400;
        json({ error: 'invalid_grant' });
      } else if (url.pathname === '/token' && this.fault !== 'slow') void this.tokens().then(json);
    });
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
  }

  get issuer(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** What a browser would come back with from the authorisation endpoint. */
  answer(authorisation: URL): URLSearchParams {
    this.nonce = authorisation.searchParams.get('nonce') ?? '';
    return new URLSearchParams({
      code: 'code',
      state: authorisation.searchParams.get('state') ?? '',
      iss: this.issuer,
    });
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private metadata(): object {
    return {
      issuer: this.issuer,
      authorization_endpoint: `${this.issuer}/auth`,
      token_endpoint: `${this.issuer}/token`,
      jwks_uri: `${this.issuer}/jwks`,
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256'],
      authorization_response_iss_parameter_supported: true,
    };
  }

  private async keySet(): Promise<object> {
    const rotated = this.fault === 'rotated';
    const { publicKey } = await (rotated ? this.others : this.keys);
    return { keys: [{ ...(await exportJWK(publicKey)), kid: rotated ? 'two' : 'one', alg: 'RS256', use: 'sig' }] };
  }

  private async tokens(): Promise<object> {
    const { fault } = this;
    const now = Math.floor(Date.now() / 1_000);
    const { privateKey } = fault === 'signature' || fault === 'rotated' ? await this.others : await this.keys;
    const claims = {
      ...(fault === 'no_subject' ? {} : { sub: 'ann' }),
      ...(fault === 'not_yet' ? { nbf: now + 3_600 } : {}),
      ...(fault === 'at_hash' ? { at_hash: hashOf('another') } : {}),
      ...(fault === 'right_at_hash' ? { at_hash: hashOf('access') } : {}),
      groups: ['red'],
      nonce: fault === 'nonce' ? 'another' : this.nonce,
      ...(fault === 'no_auth_time' ? {} : { auth_time: fault === 'stale' ? now - 86_400 : now }),
      ...(fault === 'party' ? { azp: 'other' } : {}),
      ...this.claims,
    };
    const token = new SignJWT(claims)
      .setProtectedHeader({ alg: fault === 'symmetric' ? 'HS256' : 'RS256', kid: fault === 'rotated' ? 'two' : 'one' })
      .setIssuer(fault === 'issuer' ? 'https://other.example' : this.issuer)
      .setAudience(
        fault === 'audience' ? 'another-client' : fault === 'party' ? ['countersign', 'other'] : 'countersign',
      )
      .setIssuedAt(fault === 'expired' ? now - 7_200 : now)
      .setExpirationTime(fault === 'expired' ? now - 3_600 : now + 300);
    // A verifier that lets the header choose would take the client's own name for a key.
    const shared = new TextEncoder().encode('countersign'.padEnd(32, '.'));
    const signed = await token.sign(fault === 'symmetric' ? shared : privateKey);
    const id_token =
      fault === 'unsigned' ? `${btoa('{"alg":"none"}').replaceAll('=', '')}.${signed.split('.')[1]}.` : signed;
    const answer = { access_token: 'access', token_type: 'Bearer', expires_in: 60 };
    return fault === 'no_id_token' ? answer : { ...answer, id_token };
  }
}
