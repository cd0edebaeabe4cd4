import type { CallSubmit } from '@countersign/protocol';
import { resumeReviews } from '../calls/guardian.ts';
import type { Gateway } from '../context.ts';
import { maskText } from '../masking.ts';
import type { Session } from '../record/sessions.ts';

const MAX_TRIES = 5;
const SOURCE = 'turn paused after repeated denials of the reviewing model';

/** What a call is tightened by: what it states itself, or the pause of its session or of one above. */
export const tightenedBy = (session: Session, { tighten, tightenSource }: CallSubmit) =>
  session.paused !== undefined && tighten !== 'deny'
    ? { tighten: 'ask', tightenSource: SOURCE }
    : { tighten, tightenSource };

/** Changes a session as it is now, however often others were first; false when nothing was to be changed. */
async function changeNow(
  gateway: Gateway,
  id: string,
  to: (session: Session) => Session | undefined,
  detail: object,
): Promise<boolean> {
  for (let tries = 1; tries <= MAX_TRIES; tries += 1) {
    const found = await gateway.sessions.find(id);
    const next = found?.session.state === 'open' ? to(found.session) : undefined;
    if (!found || !next) return false;
    const entry = { type: 'session.changed' as const, nowMs: gateway.now(), detail };
    if ((await gateway.sessions.change(found, next, entry)) === undefined) return true;
  }
  gateway.logger.warn({ session: id }, 'a session was changed by others again and again');
  return false;
}

/**
 * Pauses the turn of a session and calls a person: every call that is not denied waits for one until somebody answered, or
 * let the session go on. Never rejects: when the record cannot be reached, the Guardian's own pause still holds.
 */
export async function pauseTurn(
  gateway: Gateway,
  { callId, session, queue }: { readonly callId: string; readonly session: Session; readonly queue: string },
): Promise<void> {
  const paused = { call: callId, at_ms: gateway.now() };
  try {
    const changed = await changeNow(
      gateway,
      session.id,
      (now) => (now.paused === undefined ? { ...now, paused } : undefined),
      { paused: true, call: callId },
    );
    if (changed)
      gateway.hub.emit('turn_paused', { callId, session: session.id, agent: session.agent, reason: SOURCE }, queue);
  } catch (error) {
    gateway.logger.warn({ err: error, session: session.id }, 'a turn was not paused');
  }
}

/** Ends the pause of a session, because a person looked; false when there was none. */
export async function endPause(gateway: Gateway, id: string, by: { name: string; reason: string }): Promise<boolean> {
  resumeReviews(gateway, id);
  return changeNow(gateway, id, ({ paused, ...now }) => (paused === undefined ? undefined : now), {
    paused: false,
    by: by.name,
    reason: maskText(by.reason),
  });
}

/** Keeps what a person states as the request of a session, which the Guardian is told as such; false when it is not open. */
export const stateRequest = (gateway: Gateway, id: string, stated: { by: string; text: string }): Promise<boolean> =>
  changeNow(gateway, id, (now) => ({ ...now, request_text: stated.text, request_by: stated.by }), {
    by: stated.by,
    request: maskText(stated.text),
  });
