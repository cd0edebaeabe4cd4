import type { CallRecord } from '@countersign/protocol';
import type { Gateway } from '../context.ts';
import { endRequestsOfKeys } from '../requests/answer-request.ts';
import { OPEN_STATES } from '../sessions/close-session.ts';
import { cancelCall } from './cancel.ts';
import { readView } from './view.ts';

const PAGE = 500;
const BY = { name: 'revocation', reason: 'the key that signed it was revoked' };
/** Keys whose calls were ended since this process began; nothing that they sign is recorded any more. */
const settled = new WeakMap<Gateway, Set<string>>();

/**
 * Ends what revoked keys of agents started: calls that wait are cancelled, those that run or may are stopped, and requests for
 * more rights are closed. Every gateway does it once for each key, a starting one for all of them, because whoever revoked it
 * may have died in between; a failure leaves the key for the next sweep.
 */
export async function endWhatRevokedKeysStarted(gateway: Gateway): Promise<void> {
  const done = settled.get(gateway) ?? new Set<string>();
  settled.set(gateway, done);
  const agents = gateway.members.all().filter(({ role }) => role === 'agent');
  const keys = new Set(agents.flatMap(({ revoked }) => revoked).filter((key) => !done.has(key)));
  if (keys.size === 0) return;
  const isOfThem = ({ view }: CallRecord) => keys.has(readView(view)?.key ?? '');
  let pageToken = '';
  do {
    const page = await gateway.audit.listCalls(OPEN_STATES, PAGE, pageToken);
    for (const { callId } of page.calls.filter(isOfThem)) await cancelCall(gateway, '', callId, BY.name, BY.reason);
    pageToken = page.nextPageToken;
  } while (pageToken !== '');
  await endRequestsOfKeys(gateway, keys, BY);
  for (const key of keys) done.add(key);
}
