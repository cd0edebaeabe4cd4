import type { Result } from '@countersign/kernel';
import type { Identity, KnownRoster } from '@countersign/protocol';
import { connect, nkeyAuthenticator } from '@nats-io/transport-node';
import { type CallRequest, type SubmittedCall, submitCall } from './call.ts';
import { createLink } from './link.ts';
import { type Report, reportCall } from './report.ts';
import { openSession, type SessionRefused, type SessionRequest } from './session.ts';
import { closeSession, issueChildToken, type PermissionUpdateRequest, requestPermissions } from './session-command.ts';
import { startTurn, type Turn } from './turn.ts';

/** An agent's connection to its control plane. */
export type Agent = {
  readonly openSession: (request: SessionRequest) => Promise<Result<{ sessionId: string }, SessionRefused>>;
  readonly call: (request: CallRequest) => Promise<SubmittedCall>;
  /** Reports how a call ended that was handed over to this agent; resolves with the recorded state. */
  readonly report: (report: Report) => Promise<string>;
  /** A one-time token for a child of an open session. */
  readonly issueChildToken: (session: string) => Promise<Result<string, SessionRefused>>;
  /** Asks for permission updates of an open session; resolves when somebody decided. */
  readonly requestPermissions: (
    request: PermissionUpdateRequest,
  ) => Promise<Result<{ decidedBy: string }, SessionRefused>>;
  readonly closeSession: (session: string, reason?: string) => Promise<Result<undefined, SessionRefused>>;
  /** Begins a turn; name its id in calls that end with it. */
  readonly startTurn: (session: string) => Turn;
  readonly close: () => Promise<void>;
};

/** Connects as `identity` and follows `roster`, which holds the pinned root key. Rejects when the broker refuses. */
export async function connectAgent(options: {
  natsUrl: string;
  identity: Identity;
  roster: KnownRoster;
}): Promise<Agent> {
  const { identity } = options;
  const connection = await connect({
    servers: options.natsUrl,
    name: `agent:${identity.id}`,
    inboxPrefix: `_INBOX_agent_${identity.id}`,
    authenticator: nkeyAuthenticator(() => new TextEncoder().encode(identity.seed)),
    maxReconnectAttempts: -1,
    reconnectTimeWait: 250,
    ignoreAuthErrorAbort: true,
  });
  const link = createLink(connection, identity, options.roster);
  await connection.flush();
  return {
    openSession: (request) => openSession(link, request),
    call: (request) => submitCall(link, request),
    report: (report) => reportCall(link, report),
    issueChildToken: (session) => issueChildToken(link, session),
    requestPermissions: (request) => requestPermissions(link, request),
    closeSession: (session, reason) => closeSession(link, session, reason),
    startTurn: (session) => startTurn(link, session),
    close: () => connection.close(),
  };
}
