import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Gateway } from '../context.ts';
import type { Session, VersionedSession } from '../record/sessions.ts';

/** A child token opens a session for this long. */
const TOKEN_MS = 10 * 60_000;
const MAX_TOKENS = 100;

const digestOf = (token: string): string => createHash('sha256').update(token).digest('hex');

/** Issues a one-time token with which another agent of the same person opens a child; undefined when too many are open. */
export async function issueChildToken(gateway: Gateway, found: VersionedSession): Promise<string | undefined> {
  const nowMs = gateway.now();
  const live = (found.session.child_tokens ?? []).filter(({ until_ms }) => until_ms > nowMs);
  if (live.length >= MAX_TOKENS) return undefined;
  const token = randomBytes(32).toString('base64url');
  const tokens = [...live, { sha256: digestOf(token), until_ms: nowMs + TOKEN_MS }];
  const entry = { type: 'session.changed', nowMs, detail: { what: 'child_token' } } as const;
  const refused = await gateway.sessions.change(found, { ...found.session, child_tokens: tokens }, entry);
  return refused === undefined ? token : undefined;
}

/** The parent without the token; undefined when the token is unknown, used or too old. Time does not tell which. */
export function spendChildToken(parent: Session, token: string, nowMs: number): Session | undefined {
  const digest = Buffer.from(digestOf(token), 'hex');
  const tokens = parent.child_tokens ?? [];
  const matches = tokens.filter(({ sha256 }) => timingSafeEqual(Buffer.from(sha256, 'hex'), digest));
  if (!matches.some(({ until_ms }) => until_ms > nowMs)) return undefined;
  return { ...parent, child_tokens: tokens.filter((one) => !matches.includes(one)) };
}
