import type { CallRecord } from '@countersign/protocol';
import type { Gateway } from '../context.ts';
import { watchWaiting } from '../governance/watch-waiting.ts';
import type { Notice } from './notice.ts';
import type { Notifier } from './notifier.ts';

const PAGE = 500;
/** Calls remembered as told, so that an agent's resends cost no reads. */
const MAX_TOLD = 20_000;

const rfc3339 = (ms: number): string => new Date(ms).toISOString();

export type Told = Exclude<Notice['type'], 'test'>;

/** Notices about a call that still waits. */
const WAITING: readonly Told[] = ['approval.requested', 'approval.escalated', 'approval.overdue'];

/** What channels are told about a call. `url` leads to the desk, where people sign in. */
export function noticeOf(type: Told, record: CallRecord, desk: URL): Notice {
  const waits = WAITING.includes(type);
  return {
    id: `${record.callId}.${type.split('.')[1]}`,
    type,
    timestamp: rfc3339(Number(waits ? record.receivedMs : record.updatedMs)),
    data: {
      call: record.callId,
      state: record.state,
      agent: record.agent,
      host: record.host,
      session: record.sessionId,
      tool: record.tool,
      action: record.action,
      summary: record.summary,
      deadline: waits ? rfc3339(Number(record.deadlineMs)) : '',
      decided_by: record.decidedByName,
      reason: record.reason,
      url: new URL(`/calls/${record.callId}`, desk).href,
    },
  };
}

/**
 * Tells the channels of every call that begins or ends to wait and of every turn that is paused: first of those that wait already, since an earlier process may
 * have died between the record and the notice, then by the events of this gateway. Returns the end of it.
 */
export function tellOutside(gateway: Gateway, notifier: Notifier, desk: URL): () => void {
  if (notifier.channels.length === 0) return () => undefined;
  const told = new Set<string>();
  const tell = async (type: Told, callId: string) => {
    const name = `${type} ${callId}`;
    if (told.has(name)) return;
    told.add(name);
    const [oldest] = told;
    if (told.size > MAX_TOLD && oldest !== undefined) told.delete(oldest);
    const record = await gateway.audit.getCall('', callId);
    if (record) await notifier.tell(record.queue, noticeOf(type, record, desk));
  };
  const failed = (error: unknown) => gateway.logger.warn({ err: error }, 'channels were not told');
  const backlog = async () => {
    let token = '';
    do {
      const page = await gateway.audit.listCalls(['pending'], PAGE, token);
      for (const record of page.calls) await notifier.tell(record.queue, noticeOf('approval.requested', record, desk));
      token = page.nextPageToken;
    } while (token !== '');
  };
  const unfollow = gateway.hub.followOwn(({ name, data }) => {
    const { callId } = JSON.parse(data) as { callId: string };
    if (name === 'approval_request') tell('approval.requested', callId).catch(failed);
    if (name === 'break_glass') tell('approval.emergency', callId).catch(failed);
    if (name === 'turn_paused') tell('turn.paused', callId).catch(failed);
    if (name === 'approval_resolved') tell('approval.resolved', callId).catch(failed);
  });
  backlog().catch(failed);
  const watch = watchWaiting(gateway, (type, callId) => tell(type, callId));
  return () => {
    unfollow?.();
    watch.stop();
  };
}
