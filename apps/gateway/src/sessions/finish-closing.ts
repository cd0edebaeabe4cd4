import type { CallRecord } from '@countersign/protocol';
import type { Gateway } from '../context.ts';
import { closeSession } from './close-session.ts';

const BY = { name: 'gateway', reason: 'its session was deleted' };

/**
 * Finishes what a deletion of the call's session, or of one above, left undone because its gateway died. `seen` holds the
 * sessions that the round looked at. True when the session is closed.
 */
export async function finishClosing(
  gateway: Gateway,
  { sessionId }: CallRecord,
  seen: Map<string, boolean>,
): Promise<boolean> {
  const known = seen.get(sessionId);
  if (known !== undefined) return known;
  const chain = await gateway.sessions.chain(sessionId);
  const closed = [chain, ...(chain?.ancestors ?? [])].findLast((one) => one?.session.state === 'closed');
  seen.set(sessionId, closed !== undefined);
  if (closed) await closeSession(gateway, closed.session.id, BY);
  return closed !== undefined;
}
