import { consumers, STREAMS, subjects } from '@countersign/protocol';
import { AckPolicy, DiscardPolicy, type JetStreamManager, RetentionPolicy, StorageType } from '@nats-io/jetstream';

const SECOND_NS = 1_000_000_000;
/** Two gateways, a restart and an agent's resend tell the same thing again; for this long it counts once. */
const REPEAT_WINDOW_NS = 24 * 3_600 * SECOND_NS;
const DEAD_AGE_NS = 30 * 24 * 3_600 * SECOND_NS;
/** Longer than one attempt may take. */
const ACK_WAIT_NS = 30 * SECOND_NS;

const exists = (manager: JetStreamManager, stream: string): Promise<boolean> =>
  manager.streams.info(stream).then(
    () => true,
    () => false,
  );

/** Makes the streams of waiting and of given-up notices and one consumer per channel. Running it again changes nothing. */
export async function ensureNoticeStreams(manager: JetStreamManager, channels: readonly string[]): Promise<void> {
  if (!(await exists(manager, STREAMS.notices)))
    await manager.streams.add({
      name: STREAMS.notices,
      subjects: [subjects.notice('*')],
      retention: RetentionPolicy.Workqueue,
      storage: StorageType.File,
      discard: DiscardPolicy.New,
      max_bytes: 268_435_456,
      duplicate_window: REPEAT_WINDOW_NS,
    });
  if (!(await exists(manager, STREAMS.deadNotices)))
    await manager.streams.add({
      name: STREAMS.deadNotices,
      subjects: [subjects.deadNotice('*')],
      retention: RetentionPolicy.Limits,
      storage: StorageType.File,
      max_age: DEAD_AGE_NS,
      max_bytes: 268_435_456,
    });
  for (const channel of channels)
    await manager.consumers.add(STREAMS.notices, {
      durable_name: consumers.notices(channel),
      ack_policy: AckPolicy.Explicit,
      ack_wait: ACK_WAIT_NS,
      max_ack_pending: 1_000,
      filter_subject: subjects.notice(channel),
    });
}
