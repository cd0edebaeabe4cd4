import { createHash } from 'node:crypto';
import { sourceOf } from './source-of.ts';

const WINDOW_MS = 60_000;
const COOL_DOWN_MS = 30_000;
const MAX_FAILURES = 5;
const MAX_SOURCES = 10_000;

type Source = { failures: number; sinceMs: number; untilMs: number };

const LOOPBACK = /^(127\.|::1$|::ffff:127\.)/;

const digestOf = (text: string): string => createHash('sha256').update(text).digest('base64');

/**
 * Counts wrong credentials by source address (IPv6: by /64): the fifth within a minute refuses that address for 30 seconds, with right
 * credentials too. Remembers at most 10,000 addresses; beyond that the oldest is forgotten.
 */
export class CoolDown {
  readonly #sources = new Map<string, Source>();
  /** Digests of credentials with the addresses that they were right from. */
  readonly #proven = new Set<string>();
  readonly #exemptLoopback: () => boolean;
  readonly #now: () => number;

  constructor(options: { exemptLoopback: () => boolean; now: () => number }) {
    this.#exemptLoopback = options.exemptLoopback;
    this.#now = options.now;
  }

  /** Seconds that `address` has to wait; 0 when it need not. */
  waitSeconds(address: string): number {
    const untilMs = this.#sources.get(sourceOf(address))?.untilMs ?? 0;
    return Math.max(0, Math.ceil((untilMs - this.#now()) / 1_000));
  }

  /** A credential from `address` was right. Remembers at most 10,000, without what could be used. */
  proved(address: string, credential: string): void {
    const key = `${sourceOf(address)} ${digestOf(credential)}`;
    this.#proven.delete(key);
    this.#proven.add(key);
    const [oldest] = this.#proven;
    if (this.#proven.size > MAX_SOURCES && oldest !== undefined) this.#proven.delete(oldest);
  }

  /** True for a credential that was right from `address` before: it is nobody's guess. */
  hasProved(address: string, credential: string): boolean {
    return this.#proven.has(`${sourceOf(address)} ${digestOf(credential)}`);
  }

  /** A credential from `address` was wrong. */
  failed(address: string): void {
    if (this.#exemptLoopback() && LOOPBACK.test(address)) return;
    const now = this.#now();
    const key = sourceOf(address);
    const known = this.#sources.get(key);
    const source = known && now - known.sinceMs < WINDOW_MS ? known : { failures: 0, sinceMs: now, untilMs: 0 };
    source.failures += 1;
    if (source.failures >= MAX_FAILURES) {
      source.untilMs = now + COOL_DOWN_MS;
      source.failures = 0;
      source.sinceMs = now;
    }
    this.#sources.delete(key);
    this.#sources.set(key, source);
    const [oldest] = this.#sources.keys();
    if (this.#sources.size > MAX_SOURCES && oldest !== undefined) this.#sources.delete(oldest);
  }
}
