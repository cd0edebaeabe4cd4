import type { CallRecord } from '@countersign/protocol';
import { sendControl } from '../broker/control.ts';
import { cancelCall } from '../calls/cancel.ts';
import type { Gateway } from '../context.ts';
import { endGrants } from '../grants/revoke-grants.ts';
import { endRequestsOf } from '../requests/answer-request.ts';

/** States of calls that have not ended. */
export const OPEN_STATES = [
  'received',
  'pending',
  'approved',
  'dispatched',
  'running',
  'backgrounded',
  'handed_over',
] as const;
const PAGE = 500;

/** Cancels what waits in a session and stops what runs, as far as `wanted` says so; resolves to how many calls that were. */
export async function cancelCallsOf(
  gateway: Gateway,
  session: string,
  by: { name: string; reason: string },
  wanted: (record: CallRecord) => boolean = () => true,
): Promise<number> {
  let ended = 0;
  let pageToken = '';
  do {
    const page = await gateway.audit.listCalls(OPEN_STATES, PAGE, pageToken, session);
    for (const record of page.calls.filter(wanted)) {
      await cancelCall(gateway, '', record.callId, by.name, by.reason);
      ended += 1;
    }
    pageToken = page.nextPageToken;
  } while (pageToken !== '');
  return ended;
}

/**
 * Deletes a session and every session below it: no new call is taken, waiting ones are cancelled, running ones and commands in
 * the background are stopped, and its grants end. False when there is no such session. Repeating it finishes what is left; so does the sweep when this gateway died.
 */
export async function closeSession(
  gateway: Gateway,
  id: string,
  by: { name: string; reason: string },
): Promise<boolean> {
  const tree = await gateway.sessions.tree(id);
  if (tree.length === 0) return false;
  for (const found of tree) {
    const { session } = found;
    if (session.state === 'open') {
      const entry = {
        type: 'session.closed',
        nowMs: gateway.now(),
        detail: { by: by.name, reason: by.reason },
      } as const;
      const refused = await gateway.sessions.change(found, { ...session, state: 'closed' }, entry);
      if (refused !== undefined) return closeSession(gateway, id, by);
      gateway.atStep('session.closed');
    }
    await cancelCallsOf(gateway, session.id, by);
    await endRequestsOf(gateway, session.id, by);
    sendControl(gateway, session.host, { action: 'end_session', sessionId: session.id, reason: by.reason });
    const end = { type: 'revoked', by: by.name, reason: 'its session was deleted' } as const;
    await gateway.grants.refresh(session.id);
    await endGrants(gateway, gateway.grants.ofSession(session.id), end);
  }
  return true;
}
