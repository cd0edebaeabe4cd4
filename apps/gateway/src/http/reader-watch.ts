import type { FastifyRequest } from 'fastify';
import type { Principal } from '../access/principal.ts';
import type { Gateway } from '../context.ts';
import { isAllowed } from './access-hook.ts';

/** An open stream looks this often whether its reader may still read; the record's view is at most as old again. */
const CHECK_MS = 3_000;

/**
 * Looks again and again who the reader of an open stream is, until the returned function is called. SECURITY: a stream that
 * was opened with a token, session, role or group must not outlive it, so `onGone` is called when the credential counts no
 * more, when the route is closed to its person, and when nobody can tell because the record is unreachable or the clock is off.
 */
export function watchReader(
  { access, clock, now }: Pick<Gateway, 'access' | 'clock' | 'now'>,
  request: FastifyRequest,
  { onReader, onGone }: { onReader: (principal: Principal) => void; onGone: () => void },
): () => void {
  let isChecking = false;
  const check = async () => {
    if (isChecking) return;
    isChecking = true;
    const principal = await access.authenticator.stillPrincipalOf(request).catch(() => undefined);
    isChecking = false;
    if (principal && clock.isRight() && isAllowed(request, principal, now())) onReader(principal);
    else onGone();
  };
  const timer = setInterval(() => void check(), CHECK_MS);
  return () => clearInterval(timer);
}
