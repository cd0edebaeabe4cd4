import { isEscalated } from '@countersign/policy';
import type { CallRecord } from '@countersign/protocol';
import type { Gateway } from '../context.ts';

/** Escalation and due times are given in minutes. */
const ROUND_MS = 15_000;
const PAGE = 500;
const MINUTE_MS = 60_000;

/** What became of a call or of its review by the passing of time. */
export type Late = 'approval.escalated' | 'approval.overdue' | 'review.due';

/** What a waiting call has passed by now. */
function latenessOf(gateway: Gateway, call: CallRecord): Late[] {
  const queue = gateway.governance.queue(call.queue);
  const nowMs = gateway.now();
  const waitingSinceMs = Number(call.receivedMs);
  const { slaMinutes } = queue;
  const isOverdue = slaMinutes !== undefined && nowMs - waitingSinceMs >= slaMinutes * MINUTE_MS;
  return [
    ...(isEscalated(queue, { waitingSinceMs, nowMs }) ? (['approval.escalated'] as const) : []),
    ...(isOverdue ? (['approval.overdue'] as const) : []),
  ];
}

/**
 * One look at every waiting call and every open review; tells each lateness once. Rejects when the record cannot be read: the
 * next look tells it.
 * @param told what was told already; what no longer waits is forgotten.
 */
export async function lookAtWaiting(
  gateway: Gateway,
  tell: (late: Late, callId: string) => Promise<void>,
  told: Set<string>,
): Promise<void> {
  const late = new Map<string, { type: Late; callId: string }>();
  let token = '';
  do {
    const page = await gateway.audit.listCalls(['pending'], PAGE, token);
    for (const call of page.calls)
      for (const type of latenessOf(gateway, call)) late.set(`${type} ${call.callId}`, { type, callId: call.callId });
    token = page.nextPageToken;
  } while (token !== '');
  for (const review of await gateway.governance.reviews.list())
    if (review.reviewed_by === null && review.due_ms <= gateway.now())
      late.set(`review.due ${review.call}`, { type: 'review.due', callId: review.call });
  for (const name of told) if (!late.has(name)) told.delete(name);
  for (const [name, { type, callId }] of late) {
    if (told.has(name)) continue;
    await tell(type, callId);
    told.add(name);
  }
}

/** Looks every 15 seconds; one look never overlaps the next. */
export function watchWaiting(
  gateway: Gateway,
  tell: (late: Late, callId: string) => Promise<void>,
): { readonly stop: () => void } {
  const told = new Set<string>();
  let looking = false;
  const look = () => {
    if (looking || !gateway.clock.isRight()) return;
    looking = true;
    lookAtWaiting(gateway, tell, told)
      .catch((error: unknown) => gateway.logger.warn({ err: error }, 'late calls are not told yet'))
      .finally(() => {
        looking = false;
      });
  };
  look();
  const timer = setInterval(look, ROUND_MS);
  return { stop: () => clearInterval(timer) };
}
