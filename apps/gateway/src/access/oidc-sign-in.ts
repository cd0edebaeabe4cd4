import { createHash } from 'node:crypto';
import { err, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES } from '@countersign/protocol';
import * as oidc from 'openid-client';
import { z } from 'zod';
import type { AccessRefusal } from './authenticator.ts';
import type { Directory } from './directory.ts';
import { groupsSchema, nameSchema, ROLES, type Role } from './principal.ts';

/** The identity provider of the organisation. */
export const oidcSchema = z.strictObject({
  issuer: z.url(),
  clientId: z.string().min(1),
  /** File of mode 0600 that holds the client secret; absent for a public client. */
  clientSecretFile: z.string().min(1).optional(),
  /** Address at which browsers reach this gateway; `/v1/oidc/callback` below it is the redirect address. */
  publicUrl: z.url(),
  scopes: z.array(z.string().min(1)).default(['openid', 'profile']),
  subjectClaim: z.string().min(1).default('sub'),
  groupsClaim: z.string().min(1).default('groups'),
  /** Groups whose people get a role. */
  roles: z.partialRecord(z.enum(ROLES), groupsSchema),
  timeoutMs: z.int().min(100).max(30_000).default(5_000),
});
export type OidcConfig = z.infer<typeof oidcSchema>;

/** A sign-in that is under way in one browser. */
type Pending = {
  readonly verifier: string;
  readonly nonce: string;
  readonly maxAge: number;
  readonly returnTo: string;
  readonly untilMs: number;
};

const PENDING_MS = 10 * 60_000;
const MAX_PENDING = 10_000;
/** Refused answers make the provider's keys be read again no oftener than this. */
const MIN_KEYS_AGE_MS = 10_000;
const METADATA_MS = 3_600_000;
const SESSION_SECONDS = 43_200;

const claimsSchema = z.looseObject({ auth_time: z.number().optional(), at_hash: z.string().optional() });
const headerSchema = z.looseObject({ alg: z.string() });

const failed = (message: string): Result<never, AccessRefusal> => err({ code: ERROR_CODES.signInFailed, message });
const unreachable = (): Result<never, AccessRefusal> =>
  err({ code: ERROR_CODES.identityProvider, message: 'the identity provider does not answer; try again' });

const refusedAnswer = () => failed("the identity provider's answer is refused; sign in again");

/** `at_hash` of OpenID Connect Core 3.1.3.6: left half of the hash that the ID token's algorithm names, over the access token. */
function accessTokenHash({ access_token, id_token = '' }: { access_token: string; id_token?: string }): string {
  const { alg } = headerSchema.parse(JSON.parse(Buffer.from(id_token.split('.')[0] ?? '', 'base64url').toString()));
  const bits = /(256|384|512)$/.exec(alg)?.[1] ?? '512';
  const digest = createHash(`sha${bits}`).update(access_token).digest();
  return digest.subarray(0, digest.length / 2).toString('base64url');
}

/** True when the provider was not reached, as opposed to an answer of it that is refused. */
function isUnreached(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause.name === 'TimeoutError' || cause.message === 'fetch failed') return true;
    if ((cause as { code?: unknown }).code === 'OAUTH_TIMEOUT') return true;
    if ((cause as { code?: unknown }).code === 'OAUTH_RESPONSE_IS_NOT_CONFORM') return true;
  }
  return false;
}

const isLoopback = (url: string): boolean => ['127.0.0.1', 'localhost', '[::1]'].includes(new URL(url).hostname);

/** Address inside this gateway; anything else would let a link lead away after the sign-in. */
export const safeReturn = (path: string | undefined): string =>
  path !== undefined && /^\/(?![/\\])[\w\-./?=&#%]{0,500}$/.test(path) ? path : '/';

/** Sign-in with an OpenID Connect provider: authorisation code with PKCE, state and nonce, signatures always verified. */
export class OidcSignIn {
  readonly #config: OidcConfig;
  readonly #secret: string | undefined;
  readonly #directory: Directory;
  readonly #reserved: ReadonlySet<string>;
  readonly #now: () => number;
  readonly #pending = new Map<string, Pending>();
  #metadata: { readonly found: oidc.Configuration; readonly readMs: number } | undefined;

  /** `reserved`: names that no claim may take, because configured tokens stand for them. */
  constructor(options: {
    config: OidcConfig;
    secret: string | undefined;
    directory: Directory;
    reserved: readonly string[];
    now: () => number;
  }) {
    this.#config = options.config;
    this.#secret = options.secret;
    this.#directory = options.directory;
    this.#reserved = new Set(options.reserved.map((name) => name.toLowerCase()));
    this.#now = options.now;
  }

  /** Begins a sign-in. `fresh` makes the provider ask the person again. The state must come back from the same browser. */
  async begin(options: {
    fresh: boolean;
    returnTo: string;
  }): Promise<Result<{ url: URL; state: string }, AccessRefusal>> {
    const provider = await this.#provider();
    if (!provider) return unreachable();
    const verifier = oidc.randomPKCECodeVerifier();
    const nonce = oidc.randomNonce();
    const state = oidc.randomState();
    const maxAge = options.fresh ? 0 : SESSION_SECONDS;
    this.#forget();
    this.#pending.set(state, {
      verifier,
      nonce,
      maxAge,
      returnTo: options.returnTo,
      untilMs: this.#now() + PENDING_MS,
    });
    const url = oidc.buildAuthorizationUrl(provider, {
      redirect_uri: this.#redirectUri,
      scope: this.#config.scopes.join(' '),
      code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      state,
      nonce,
      max_age: String(maxAge),
      ...(options.fresh ? { prompt: 'login' } : {}),
    });
    return ok({ url, state });
  }

  /**
   * Ends a sign-in with the address that the browser came back to. `browserState` is what that browser kept of `begin`.
   * The person's roles and groups are recorded as the claims say.
   */
  async finish(
    query: string,
    browserState: string | undefined,
  ): Promise<Result<{ subject: string; provenMs: number; returnTo: string }, AccessRefusal>> {
    const state = new URLSearchParams(query).get('state') ?? '';
    const pending = this.#pending.get(state);
    // SECURITY: a state that another browser began would sign this one in as somebody else.
    if (!pending || state !== browserState || pending.untilMs <= this.#now())
      return failed('this sign-in was not begun in this browser, or is too old; begin again');
    this.#pending.delete(state);
    const provider = await this.#provider();
    if (!provider) return unreachable();
    const claims = await this.#claims(provider, `${this.#redirectUri}?${query}`, { ...pending, state });
    if (claims.ok) return this.#admit(claims.value, pending.returnTo);
    // The provider may have new keys: the next sign-in reads them.
    if (this.#metadata && this.#now() - this.#metadata.readMs > MIN_KEYS_AGE_MS) this.#metadata = undefined;
    return claims;
  }

  get #redirectUri(): string {
    return new URL('/v1/oidc/callback', this.#config.publicUrl).href;
  }

  async #claims(
    provider: oidc.Configuration,
    url: string,
    { verifier, nonce, maxAge, state }: Pending & { state: string },
  ): Promise<Result<z.infer<typeof claimsSchema>, AccessRefusal>> {
    try {
      const tokens = await oidc.authorizationCodeGrant(provider, new URL(url), {
        pkceCodeVerifier: verifier,
        expectedNonce: nonce,
        expectedState: state,
        maxAge,
        idTokenExpected: true,
      });
      const claims = claimsSchema.parse(tokens.claims());
      // Optional in this flow; a wrong one says that the tokens of two answers were mixed.
      if (claims.at_hash !== undefined && claims.at_hash !== accessTokenHash(tokens)) return refusedAnswer();
      return ok(claims);
    } catch (error) {
      // The provider's own words may hold what was sent; none of it leaves.
      return isUnreached(error) ? unreachable() : refusedAnswer();
    }
  }

  async #admit(claims: z.infer<typeof claimsSchema>, returnTo: string) {
    const { subjectClaim, groupsClaim } = this.#config;
    const subject = nameSchema.safeParse(claims[subjectClaim]);
    if (!subject.success) return failed(`the claim \`${subjectClaim}\` is no usable name`);
    if (z.looseObject({ [groupsClaim]: z.string() }).safeParse(claims._claim_names).success)
      return failed('the provider sent a reference in place of your many groups; let it send fewer');
    const groups = groupsSchema.safeParse(claims[groupsClaim] ?? []);
    if (!groups.success) return failed(`the claim \`${groupsClaim}\` is no list of groups`);
    const known = await this.#directory.find(subject.data);
    if (await this.#directory.sameButForCase(subject.data))
      return failed('this name differs from a known person in case only');
    if (this.#reserved.has(subject.data.toLowerCase()) || known?.source === 'local')
      return failed('this name belongs to a local person');
    if (known && !known.active) return failed('this person may not sign in any more');
    const roles = this.#rolesOf(groups.data);
    if (known || roles.length > 0)
      await this.#directory.put(
        { subject: subject.data, roles, groups: groups.data, source: 'oidc', active: true },
        subject.data,
      );
    if (roles.length === 0) return failed('none of your groups has a role here');
    return ok({ subject: subject.data, provenMs: (claims.auth_time ?? 0) * 1_000, returnTo });
  }

  #rolesOf(groups: readonly string[]): Role[] {
    return ROLES.filter((role) => this.#config.roles[role]?.some((group) => groups.includes(group)));
  }

  /** The provider's metadata, read anew each hour; undefined when it cannot be read. */
  async #provider(): Promise<oidc.Configuration | undefined> {
    const ageMs = this.#now() - (this.#metadata?.readMs ?? 0);
    if (this.#metadata && ageMs >= 0 && ageMs < METADATA_MS) return this.#metadata.found;
    const { issuer, clientId, timeoutMs } = this.#config;
    const execute = [oidc.enableNonRepudiationChecks, ...(isLoopback(issuer) ? [oidc.allowInsecureRequests] : [])];
    const authentication = this.#secret === undefined ? oidc.None() : oidc.ClientSecretBasic(this.#secret);
    const timeout = timeoutMs / 1_000;
    try {
      const found = await oidc.discovery(new URL(issuer), clientId, undefined, authentication, { execute, timeout });
      this.#metadata = { found, readMs: this.#now() };
      return found;
    } catch {
      return undefined;
    }
  }

  #forget(): void {
    for (const [state, { untilMs }] of this.#pending)
      if (untilMs <= this.#now() || this.#pending.size >= MAX_PENDING) this.#pending.delete(state);
  }
}
