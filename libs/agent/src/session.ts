import { randomBytes } from 'node:crypto';
import { err, makeId, ok, type Result } from '@countersign/kernel';
import { type CallEvent, EnvelopeKind, SessionOpen, sealTo } from '@countersign/protocol';
import type { Link } from './link.ts';
import { resendUntilStopped } from './resend.ts';

/** A session as an agent opens it. Modes left out take the managed defaults. */
export type SessionRequest = {
  readonly project: string;
  readonly host: string;
  readonly requestText?: string;
  readonly modelProvider?: string;
  readonly modelName?: string;
  readonly permissionMode?: string;
  readonly approvalMode?: string;
  readonly sessionId?: string;
  /** In a folder that this agent may not work in yet: waits while a person is asked to trust it, instead of being refused at once. */
  readonly untilTrusted?: boolean;
  /** Told that the folder waits for a person. */
  readonly onWaiting?: (event: CallEvent) => void;
  /** Session that this one descends from, with a token that it issued. */
  readonly parent?: { readonly session: string; readonly token: string };
};

export type SessionRefused = { readonly code: string; readonly message: string };

/** Opens a session and waits for the signed answer. Rejects when the connection is closed first. */
export async function openSession(
  link: Link,
  request: SessionRequest,
): Promise<Result<{ sessionId: string }, SessionRefused>> {
  const sessionId = request.sessionId ?? makeId('ses', Date.now(), randomBytes);
  const open = SessionOpen.fromPartial({
    sessionId,
    project: request.project,
    host: request.host,
    requestText: request.requestText ?? '',
    modelProvider: request.modelProvider ?? '',
    modelName: request.modelName ?? '',
    permissionMode: request.permissionMode ?? '',
    approvalMode: request.approvalMode ?? '',
    parentSession: request.parent?.session ?? '',
    sealedChildToken: request.parent
      ? await sealTo(link.controlSealKey, new TextEncoder().encode(request.parent.token), sessionId)
      : new Uint8Array(),
  });
  const body = SessionOpen.encode(open).finish();
  const message = link.sign(EnvelopeKind.SESSION, link.callSubject, body);
  const { promise, resolve, reject } = Promise.withResolvers<Result<{ sessionId: string }, SessionRefused>>();
  const unfollow = link.follow({
    matches: (event) => event.type.startsWith('session.') && event.sessionId === sessionId,
    onEvent: (event) => {
      if (event.type === 'session.opened') resolve(ok({ sessionId }));
      // Somebody decided about the folder: the next sending is answered by that.
      if (event.type === 'session.folder') link.publish(link.callSubject, message);
      if (event.type !== 'session.refused') return;
      if (!(request.untilTrusted && event.state === 'pending'))
        return resolve(err({ code: event.code, message: event.reason }));
      sending.answered();
      request.onWaiting?.(event);
    },
    onClosed: reject,
  });
  const sending = resendUntilStopped(() => link.publish(link.callSubject, message));
  return promise.finally(() => {
    sending.stop();
    unfollow();
  });
}
