import { randomBytes } from 'node:crypto';
import { err, makeId, ok, type Result } from '@countersign/kernel';
import { type CallEvent, EnvelopeKind, SessionCommand } from '@countersign/protocol';
import type { Link } from './link.ts';
import { resendUntilStopped } from './resend.ts';
import type { SessionRefused } from './session.ts';

type Command = { readonly session: string; readonly action: 'child_token' | 'close'; readonly reason?: string };

/** Sends a command about an open session until its signed answer comes. */
async function send(link: Link, { session, action, reason = '' }: Command): Promise<Result<CallEvent, SessionRefused>> {
  const requestId = makeId('tok', Date.now(), randomBytes);
  const command = SessionCommand.fromPartial({ sessionId: session, requestId, action, reason });
  const message = link.sign(EnvelopeKind.SESSION_COMMAND, link.callSubject, SessionCommand.encode(command).finish());
  const { promise, resolve, reject } = Promise.withResolvers<Result<CallEvent, SessionRefused>>();
  const unfollow = link.follow({
    matches: (event) => event.type === 'session.answer' && event.requestId === requestId,
    onEvent: (event) => resolve(event.code === '' ? ok(event) : err({ code: event.code, message: event.reason })),
    onClosed: reject,
  });
  const sending = resendUntilStopped(() => link.publish(link.callSubject, message));
  return promise.finally(() => {
    sending.stop();
    unfollow();
  });
}

/** A one-time token with which an agent of the same person opens a child of this session, within ten minutes. */
export async function issueChildToken(link: Link, session: string): Promise<Result<string, SessionRefused>> {
  const answer = await send(link, { session, action: 'child_token' });
  if (!answer.ok) return answer;
  const { sealedResult, requestId } = answer.value;
  return ok(new TextDecoder().decode(await link.identity.open(sealedResult, requestId)));
}

/** Ends a session and its children: waiting calls are cancelled, running ones stopped, grants ended. */
export async function closeSession(
  link: Link,
  session: string,
  reason?: string,
): Promise<Result<undefined, SessionRefused>> {
  const answer = await send(link, { session, action: 'close', ...(reason === undefined ? {} : { reason }) });
  return answer.ok ? ok(undefined) : answer;
}
