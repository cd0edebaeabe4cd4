import { randomBytes } from 'node:crypto';
import { err, makeId, ok, type Result } from '@countersign/kernel';
import { type CallEvent, EnvelopeKind, SessionCommand } from '@countersign/protocol';
import type { Link } from './link.ts';
import { resendUntilStopped } from './resend.ts';
import type { SessionRefused } from './session.ts';

type Command = {
  readonly session: string;
  readonly action: 'child_token' | 'close' | 'permission_update';
  readonly reason?: string;
  readonly requestId?: string;
  readonly updates?: Uint8Array;
  /** Told of each answer that says that somebody still has to decide. */
  readonly onWaiting?: (event: CallEvent) => void;
};

/** Sends a command about an open session until the signed answer comes that ends it. */
async function send(link: Link, asked: Command): Promise<Result<CallEvent, SessionRefused>> {
  const { session, action, reason = '', requestId = makeId('tok', Date.now(), randomBytes), updates } = asked;
  const command = SessionCommand.fromPartial({
    ...{ sessionId: session, requestId, action, reason },
    ...(updates ? { updates } : {}),
  });
  const message = link.sign(EnvelopeKind.SESSION_COMMAND, link.callSubject, SessionCommand.encode(command).finish());
  const { promise, resolve, reject } = Promise.withResolvers<Result<CallEvent, SessionRefused>>();
  const unfollow = link.follow({
    matches: (event) => event.type === 'session.answer' && event.requestId === requestId,
    onEvent: (event) => {
      if (event.state !== 'pending')
        return resolve(event.code === '' ? ok(event) : err({ code: event.code, message: event.reason }));
      sending.answered();
      asked.onWaiting?.(event);
    },
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

type Destination = 'session' | 'local' | 'project' | 'user';
type Rule = { readonly toolName: string; readonly pattern?: string; readonly reason?: string };
type Rules = { readonly effect: 'allow' | 'ask' | 'deny'; readonly rules: readonly Rule[] };

/**
 * One change that a permission update asks for. `session` ends with the session; `local` reaches this agent in this project on
 * this host, `project` everybody in it, `user` every session of this person.
 */
export type PermissionUpdate = { readonly destination: Destination } & (
  | { readonly type: 'setMode'; readonly mode?: string; readonly approvalMode?: string }
  | { readonly type: 'addHosts' | 'replaceHosts'; readonly hosts: readonly string[] }
  | { readonly type: 'setSandboxBackend'; readonly backend: string }
  | ({ readonly type: 'addRules' | 'replaceRules' | 'removeRules' } & Rules)
);

/** Permission updates that belong together: all of them are decided at once. */
export type PermissionUpdateRequest = {
  readonly session: string;
  readonly updates: readonly PermissionUpdate[];
  /** Why; shown to the person who decides. */
  readonly reason?: string;
  /** A chosen id, to repeat a request whose answer was lost; a repetition is answered from the record. */
  readonly requestId?: string;
  readonly onWaiting?: (event: CallEvent) => void;
};

/**
 * Asks for permission updates of an open session and waits until a person, or unattended mode, has decided. What was approved
 * holds for calls that are sent after that. Resolves with an error when it was refused, denied or nobody answered in an hour;
 * rejects when the connection is closed first.
 */
export async function requestPermissions(
  link: Link,
  { session, updates, ...rest }: PermissionUpdateRequest,
): Promise<Result<{ decidedBy: string }, SessionRefused>> {
  const bytes = new TextEncoder().encode(JSON.stringify(updates));
  const answer = await send(link, { session, action: 'permission_update', updates: bytes, ...rest });
  return answer.ok ? ok({ decidedBy: answer.value.decidedBy }) : answer;
}
