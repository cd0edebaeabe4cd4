import { err, ok, type Result } from '@countersign/kernel';
import { ERROR_CODES, type ErrorCode } from '@countersign/protocol';
import type { FastifyRequest } from 'fastify';
import type { TokenRecord } from '../config.ts';
import type { ApiTokens } from './api-tokens.ts';
import type { CoolDown } from './cool-down.ts';
import type { Directory } from './directory.ts';
import { type Principal, SCOPES, seesAll } from './principal.ts';
import { type CookieSession, type SignIn, sameSecret } from './sign-in.ts';

export const SESSION_COOKIE = 'countersign_session';

export type AccessRefusal = {
  readonly code: ErrorCode;
  readonly message: string;
  /** Seconds to wait, for `Retry-After`. */
  readonly retryAfter?: number;
};

const unauthenticated = (message: string): Result<never, AccessRefusal> =>
  err({ code: ERROR_CODES.unauthenticated, message });

const reads = ({ method }: FastifyRequest): boolean => method === 'GET' || method === 'HEAD';

/** True when a browser says that another page sent the request. */
function isForeign({ headers }: FastifyRequest): boolean {
  if (headers['sec-fetch-site'] !== undefined && headers['sec-fetch-site'] === 'cross-site') return true;
  if (headers.origin === undefined) return false;
  return !URL.canParse(headers.origin) || new URL(headers.origin).host !== headers.host;
}

const inAddressOf = ({ query }: FastifyRequest): unknown =>
  (query as { access_token?: unknown } | undefined)?.access_token;

/** The token that a request sends; an empty text for a header of another form, undefined for none. */
function tokenText(request: FastifyRequest): string | undefined {
  const { authorization } = request.headers;
  const inAddress = inAddressOf(request);
  if (authorization !== undefined) return /^Bearer ([\w~.+/=-]{16,512})$/.exec(authorization)?.[1] ?? '';
  return inAddress === undefined ? undefined : String(inAddress);
}

export type AuthenticatorOptions = {
  readonly tokens: ApiTokens;
  readonly directory: Directory;
  readonly signIn: SignIn;
  readonly coolDown: CoolDown;
  readonly configured: readonly TokenRecord[];
  /** Groups that others have lent to a person. */
  readonly lent: (subject: string) => Promise<readonly string[]>;
  /** Credentials in the address are refused. */
  readonly hardened: () => boolean;
};

/** Tells who sends a request. */
export class Authenticator {
  readonly #options: AuthenticatorOptions;

  constructor(options: AuthenticatorOptions) {
    this.#options = options;
  }

  /** Seconds that the sender has to wait after wrong credentials. */
  waitSeconds(request: FastifyRequest): number {
    return this.#options.coolDown.waitSeconds(request.ip);
  }

  failed(request: FastifyRequest): void {
    this.#options.coolDown.failed(request.ip);
  }

  /** Whose cookie session a request shows; says nothing of what it may do. */
  signedInSubject({ cookies }: FastifyRequest): string | undefined {
    const cookie = cookies[SESSION_COOKIE];
    return cookie === undefined ? undefined : this.#options.signIn.session(cookie)?.subject;
  }

  /**
   * Who sends the request, or why nobody can be told. A cookie counts for changes only with its CSRF token and from our own
   * page. Rejects when the record cannot be read.
   */
  async principalOf(request: FastifyRequest): Promise<Result<Principal, AccessRefusal>> {
    const { authorization } = request.headers;
    const cookie = request.cookies[SESSION_COOKIE];
    const text = tokenText(request);
    if (text === undefined) {
      if (cookie === undefined) return unauthenticated('sign in, or send a valid token in the Authorization header');
      return this.#bySession(request, this.#options.signIn.session(cookie));
    }
    const { coolDown, hardened } = this.#options;
    const wait = this.waitSeconds(request);
    if (wait > 0 && (hardened() || !coolDown.hasProved(request.ip, text))) {
      const message = `wrong credentials came from your address; wait ${wait} s`;
      return err({ code: ERROR_CODES.rateLimited, message, retryAfter: wait });
    }
    if (authorization === undefined && (hardened() || !reads(request)))
      return unauthenticated('a token in the address is not accepted; send it in the Authorization header');
    const principal = await this.#byToken(request);
    if (principal) {
      coolDown.proved(request.ip, text);
      return ok(await this.#withLent(principal));
    }
    this.failed(request);
    return unauthenticated('the token is not valid, has expired or was revoked');
  }

  /**
   * Who a reading request that was let in is from by now; undefined when its credential counts no more. Nothing is counted
   * as a wrong credential, and no wait of its address holds here. Rejects when the record cannot be read.
   */
  async stillPrincipalOf(request: FastifyRequest): Promise<Principal | undefined> {
    if (tokenText(request) !== undefined) {
      const principal = await this.#byToken(request);
      return principal && this.#withLent(principal);
    }
    const found = await this.#bySession(request, this.#options.signIn.session(request.cookies[SESSION_COOKIE] ?? ''));
    return found.ok ? found.value : undefined;
  }

  /** The person with present roles and groups; undefined when unknown or not active any more. */
  async person(subject: string): Promise<Pick<Principal, 'name' | 'roles' | 'groups'> | undefined> {
    const person = await this.#options.directory.find(subject);
    if (person) return person.active ? { name: subject, roles: person.roles, groups: person.groups } : undefined;
    const configured = this.#options.configured.find(({ name }) => name === subject);
    return configured && { name: subject, roles: [configured.role], groups: configured.groups };
  }

  async #byToken(request: FastifyRequest): Promise<Principal | undefined> {
    const text = tokenText(request);
    return text === undefined ? undefined : this.#options.tokens.principalOf(text);
  }

  async #bySession(
    request: FastifyRequest,
    session: CookieSession | undefined,
  ): Promise<Result<Principal, AccessRefusal>> {
    const person = session && (await this.person(session.subject));
    if (!session || !person) return unauthenticated('your session has ended; sign in again');
    const { method, provenMs, csrf } = session;
    const principal: Principal = { ...person, method, provenMs, csrf, scopes: SCOPES };
    if (reads(request)) return ok(await this.#withLent(principal));
    const sent = request.headers['x-csrf-token'];
    if (typeof sent !== 'string' || !sameSecret(sent, csrf))
      return unauthenticated("a change needs the session's token in the X-CSRF-Token header");
    return isForeign(request)
      ? unauthenticated('the request was sent by another page')
      : ok(await this.#withLent(principal));
  }

  async #withLent(principal: Principal): Promise<Principal> {
    if (seesAll(principal)) return principal;
    const lent = await this.#options.lent(principal.name);
    return lent.length === 0 ? principal : { ...principal, lent };
  }
}
