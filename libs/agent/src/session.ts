import { randomBytes } from 'node:crypto';
import { err, makeId, ok, type Result } from '@countersign/kernel';
import { EnvelopeKind, SessionOpen, sealTo } from '@countersign/protocol';
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
      if (event.type === 'session.refused') resolve(err({ code: event.code, message: event.reason }));
    },
    onClosed: reject,
  });
  const sending = resendUntilStopped(() => link.publish(link.callSubject, message));
  return promise.finally(() => {
    sending.stop();
    unfollow();
  });
}
