import { consumers, STREAMS, subjects } from '@countersign/protocol';
import {
  AckPolicy,
  DeliverPolicy,
  DiscardPolicy,
  type JetStreamManager,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
} from '@nats-io/jetstream';

const SECOND_NS = 1_000_000_000;
const ACK_WAIT_NS = 30 * SECOND_NS;
const EVENT_AGE_NS = 24 * 3_600 * SECOND_NS;

const base = { storage: StorageType.File, num_replicas: 1 };
const STREAM_CONFIGS: readonly Partial<StreamConfig>[] = [
  {
    ...base,
    name: STREAMS.calls,
    subjects: ['cs.v1.call.*', 'cs.v1.cancel.*'],
    retention: RetentionPolicy.Workqueue,
    no_ack: true,
    discard: DiscardPolicy.New,
    max_msgs_per_subject: 1_000,
    discard_new_per_subject: true,
    max_bytes: 1_073_741_824,
  },
  {
    ...base,
    name: STREAMS.work,
    subjects: ['cs.v1.work.*'],
    retention: RetentionPolicy.Workqueue,
    max_bytes: 1_073_741_824,
    discard: DiscardPolicy.New,
  },
  {
    ...base,
    name: STREAMS.outcomes,
    subjects: ['cs.v1.outcome.*'],
    retention: RetentionPolicy.Workqueue,
    no_ack: true,
    max_bytes: 1_073_741_824,
    discard: DiscardPolicy.New,
  },
  {
    ...base,
    name: STREAMS.events,
    subjects: ['cs.v1.event.*.*'],
    retention: RetentionPolicy.Limits,
    max_age: EVENT_AGE_NS,
    max_bytes: 536_870_912,
  },
];

async function ensureConsumer(manager: JetStreamManager, stream: string, name: string, filter?: string): Promise<void> {
  await manager.consumers.add(stream, {
    durable_name: name,
    ack_policy: AckPolicy.Explicit,
    deliver_policy: DeliverPolicy.All,
    ack_wait: ACK_WAIT_NS,
    max_ack_pending: 1_000,
    ...(filter === undefined ? {} : { filter_subject: filter }),
  });
}

/** Makes the streams and the gateways' shared consumers. What is there already is left; running it again changes nothing. */
export async function ensureStreams(manager: JetStreamManager): Promise<void> {
  for (const config of STREAM_CONFIGS) {
    const exists = await manager.streams.info(config.name ?? '').then(
      () => true,
      () => false,
    );
    if (!exists) await manager.streams.add(config as StreamConfig & { name: string });
  }
  await ensureConsumer(manager, STREAMS.calls, consumers.gatewayCalls);
  await ensureConsumer(manager, STREAMS.outcomes, consumers.gatewayOutcomes);
}

/** Makes the one consumer that a host pulls its orders from; hosts may not make any. */
export const ensureWorkConsumer = (manager: JetStreamManager, host: string): Promise<void> =>
  ensureConsumer(manager, STREAMS.work, consumers.work(host), subjects.work(host));
