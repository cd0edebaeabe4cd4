import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import type { Role, TokenRecord } from '../config.ts';

/** Who asks. Agents have no token here, so an agent can never decide. */
export type Principal = { readonly name: string; readonly role: Role; readonly csrf?: string };

export const SESSION_COOKIE = 'countersign_session';
const LOGIN_MS = 10 * 60_000;
const SESSION_MS = 12 * 3_600_000;
const MAX_LINKS = 1_000;
const MAX_SESSIONS = 10_000;

const digestOf = (text: string): Buffer => createHash('sha256').update(text).digest();
const keyOf = (text: string): string => digestOf(text).toString('hex');

type Session = { readonly principal: Principal; readonly untilMs: number };

/** Tokens, one-time login links and cookie sessions. Only digests of secrets are kept. */
export class Sign {
  readonly #tokens: readonly (TokenRecord & { readonly digest: Buffer })[];
  readonly #links = new Map<string, Session>();
  readonly #sessions = new Map<string, Session>();
  readonly #now: () => number;

  constructor(tokens: readonly TokenRecord[], now: () => number) {
    this.#tokens = tokens.map((token) => ({ ...token, digest: Buffer.from(token.sha256, 'hex') }));
    this.#now = now;
  }

  /** A login link for an approver: works once, for ten minutes. */
  newLink(principal: Principal): string {
    this.#forget(this.#links, MAX_LINKS);
    const secret = randomBytes(32).toString('base64url');
    this.#links.set(keyOf(secret), { principal, untilMs: this.#now() + LOGIN_MS });
    return secret;
  }

  /** Exchanges a link for a cookie value; undefined when it is unknown, used or too old. */
  redeem(secret: string): string | undefined {
    const link = this.#links.get(keyOf(secret));
    this.#links.delete(keyOf(secret));
    if (!link || link.untilMs < this.#now()) return undefined;
    this.#forget(this.#sessions, MAX_SESSIONS);
    const cookie = randomBytes(32).toString('base64url');
    const principal = { ...link.principal, csrf: randomBytes(24).toString('base64url') };
    this.#sessions.set(keyOf(cookie), { principal, untilMs: this.#now() + SESSION_MS });
    return cookie;
  }

  /** The principal of a request; undefined for none. A cookie counts for changes only with its CSRF token. */
  principalOf(request: FastifyRequest): Principal | undefined {
    const header = request.headers.authorization;
    if (header !== undefined) return this.#byToken(/^Bearer ([\w~.+/=-]{16,512})$/.exec(header)?.[1]);
    const cookie = request.cookies[SESSION_COOKIE];
    const session = cookie === undefined ? undefined : this.#sessions.get(keyOf(cookie));
    if (!session || session.untilMs < this.#now()) return undefined;
    const reads = request.method === 'GET' || request.method === 'HEAD';
    const csrf = request.headers['x-csrf-token'];
    const proven = typeof csrf === 'string' && timingSafeEqual(digestOf(csrf), digestOf(session.principal.csrf ?? ''));
    return reads || proven ? session.principal : undefined;
  }

  #byToken(token: string | undefined): Principal | undefined {
    if (token === undefined) return undefined;
    const digest = digestOf(token);
    let found: Principal | undefined;
    // Every record is compared, so that time does not tell which one matched.
    for (const record of this.#tokens)
      if (timingSafeEqual(record.digest, digest)) found = { name: record.name, role: record.role };
    return found;
  }

  #forget(sessions: Map<string, Session>, limit: number): void {
    for (const [key, session] of sessions)
      if (session.untilMs < this.#now() || sessions.size >= limit) sessions.delete(key);
  }
}
