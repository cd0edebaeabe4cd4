import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

const LINK_MS = 10 * 60_000;
const SESSION_MS = 12 * 3_600_000;
/** Clocks are corrected by this much in ordinary service. */
const STEP_BACK_MS = 60_000;
const MAX_LINKS = 1_000;
const MAX_SESSIONS = 10_000;

const digestOf = (text: string): Buffer => createHash('sha256').update(text).digest();
const keyOf = (text: string): string => digestOf(text).toString('hex');
const secret = (): string => randomBytes(32).toString('base64url');

/** A person who proved who he is. Roles and groups are not kept here: they are looked up at each request. */
export type SignedIn = {
  readonly subject: string;
  readonly method: 'link' | 'oidc';
  readonly provenMs: number;
};

export type CookieSession = SignedIn & { readonly csrf: string };

/** `sinceMs`: when it was made. A clock that was set back before it makes it void, so that nothing lives longer than it may. */
type Kept<T> = { readonly value: T; readonly sinceMs: number; readonly untilMs: number };

/** One-time login links and cookie sessions, in memory: a restart signs everybody out. Only digests of secrets are kept. */
export class SignIn {
  readonly #links = new Map<string, Kept<string>>();
  readonly #sessions = new Map<string, Kept<CookieSession>>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** A login link for a person: works once, for ten minutes. */
  newLink(subject: string): string {
    this.#forget(this.#links, MAX_LINKS);
    const text = secret();
    this.#links.set(keyOf(text), { value: subject, ...this.#lasting(LINK_MS) });
    return text;
  }

  /** Exchanges a link for a cookie value; undefined when it is unknown, used or too old. */
  redeem(text: string): string | undefined {
    const link = this.#links.get(keyOf(text));
    this.#links.delete(keyOf(text));
    if (!link || !this.#holds(link)) return undefined;
    return this.open({ subject: link.value, method: 'link', provenMs: this.#now() });
  }

  /** Opens a session and returns its cookie value. */
  open(person: SignedIn): string {
    this.#forget(this.#sessions, MAX_SESSIONS);
    const cookie = secret();
    const value = { ...person, csrf: randomBytes(24).toString('base64url') };
    this.#sessions.set(keyOf(cookie), { value, ...this.#lasting(SESSION_MS) });
    return cookie;
  }

  session(cookie: string): CookieSession | undefined {
    const kept = this.#sessions.get(keyOf(cookie));
    return kept && this.#holds(kept) ? kept.value : undefined;
  }

  close(cookie: string): void {
    this.#sessions.delete(keyOf(cookie));
  }

  #lasting(ms: number): { sinceMs: number; untilMs: number } {
    const sinceMs = this.#now();
    return { sinceMs, untilMs: sinceMs + ms };
  }

  #holds({ sinceMs, untilMs }: Kept<unknown>): boolean {
    const nowMs = this.#now();
    return nowMs < untilMs && nowMs >= sinceMs - STEP_BACK_MS;
  }

  #forget<T>(kept: Map<string, Kept<T>>, limit: number): void {
    for (const [key, { untilMs }] of kept) if (untilMs <= this.#now() || kept.size >= limit) kept.delete(key);
  }
}

/** True when both texts are the same, in time that does not depend on where they differ. */
export const sameSecret = (left: string, right: string): boolean => timingSafeEqual(digestOf(left), digestOf(right));
