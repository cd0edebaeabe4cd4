import { type AtStep, passEachStep } from '@countersign/kernel';
import {
  Beat,
  consumers,
  EnvelopeKind,
  GuardianClient,
  openEnvelope,
  rosterKey,
  STREAMS,
  subjects,
} from '@countersign/protocol';
import {
  connectNats,
  grpcClient,
  inboxPrefix,
  type Logger,
  loadIdentity,
  loadRoster,
  type NatsConnection,
  type RunningService,
} from '@countersign/service-kit';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { Hosts } from './broker/hosts.ts';
import { startPullLoop } from './broker/pull-loop.ts';
import { ensureStreams, ensureWorkConsumer } from './broker/streams.ts';
import { takeOutcome } from './calls/outcome.ts';
import { RESEND_MS, sweepCalls } from './calls/sweep.ts';
import { takeMessage } from './calls/take-message.ts';
import type { GatewayConfig } from './config.ts';
import type { Gateway } from './context.ts';
import { EventHub } from './event-hub.ts';
import type { GatewayStep } from './gateway-step.ts';
import { startHttp } from './http/server.ts';
import { Metrics } from './metrics.ts';
import { startNotifying } from './notify/start-notifying.ts';
import { PolicyDesk } from './policy-desk.ts';
import { AuditLog } from './record/audit-log.ts';
import { Members } from './record/members.ts';
import { Sessions } from './record/sessions.ts';

const SWEEP_MS = 5_000;
const BEAT_VALID_MS = 30_000;
const CALLS_AT_ONCE = 64;

/** Follows heartbeats and audit's beats; returns the epoch of the newest verified beat. */
function followBroker(connection: NatsConnection, hosts: Hosts, auditKey: string, now: () => number): () => bigint {
  let epoch = 0n;
  let newest = -1n;
  connection.subscribe('cs.v1.heartbeat.*', {
    callback: (error, message) => {
      if (!error) hosts.take(message.subject, message.data, now());
    },
  });
  connection.subscribe(subjects.beat(), {
    callback: (error, message) => {
      if (error) return;
      const opened = openEnvelope(message.data, {
        kind: EnvelopeKind.BEAT,
        subject: message.subject,
        issuer: auditKey,
        nowMs: now(),
        maxAgeMs: BEAT_VALID_MS,
      });
      if (!opened.ok || opened.value.sequence <= newest) return;
      newest = opened.value.sequence;
      epoch = Beat.decode(opened.value.body).freezeEpoch;
    },
  });
  return () => epoch;
}

/** Starts the rounds over unfinished calls; one round never overlaps the next. */
function startSweep(gateway: Gateway): { stop: () => Promise<void> } {
  let round = Promise.resolve();
  let running = false;
  const sweep = (silentMs: number) => {
    if (running) return;
    running = true;
    round = sweepCalls(gateway, silentMs)
      .catch((error: unknown) => gateway.logger.warn({ err: error }, 'sweep did not finish; the next round goes on'))
      .finally(() => {
        running = false;
      });
  };
  sweep(0);
  const timer = setInterval(() => sweep(RESEND_MS), SWEEP_MS);
  return {
    stop: async () => {
      clearInterval(timer);
      await round;
    },
  };
}

/** What tests may put in place of the real clock and of passing each step. */
export type GatewayDependencies = { readonly now?: () => number; readonly atStep?: AtStep<GatewayStep> };

/** Starts the gateway. Rejects when a key, the roster, the policy, the broker or the record is missing: nothing is served then. */
export async function startGateway(
  config: GatewayConfig,
  logger: Logger,
  { now = Date.now, atStep = passEachStep }: GatewayDependencies = {},
): Promise<RunningService & { port: number; routes: readonly string[] }> {
  const policy = new PolicyDesk(config.policy);
  const identity = await loadIdentity(config.identityFile);
  const control = await loadIdentity(config.controlIdentityFile);
  const roster = loadRoster(config.rosterFile, config.rootKey);
  const connection = await connectNats({
    url: config.natsUrl,
    seed: identity.seed,
    name: 'gateway',
    inboxPrefix: inboxPrefix('gateway', identity.id),
  });
  const manager = await jetstreamManager(connection);
  await ensureStreams(manager);
  const metrics = new Metrics();
  const count = metrics.counter(
    'audit_requests',
    'rpc',
    'Requests to the audit service, appends on the kept stream included',
  );
  const audit = new AuditLog(config.auditAddress, count);
  const members = new Members(audit);
  await members.refresh();
  for (const host of members.hosts()) await ensureWorkConsumer(manager, host.id);
  const hosts = new Hosts(members);
  const gateway: Gateway = {
    audit,
    metrics,
    members,
    sessions: new Sessions(audit),
    hosts,
    policy,
    guardian: grpcClient(GuardianClient, config.guardianAddress),
    hub: new EventHub(now()),
    identity,
    control,
    broker: { connection, jetstream: jetstream(connection), manager },
    freezeEpoch: followBroker(connection, hosts, rosterKey(roster, 'audit').signKey, now),
    now,
    atStep,
    startedMs: now(),
    queues: policy.queues,
    hardened: policy.hardened,
    blockPrivateNetwork: policy.blockPrivateNetwork,
    logger,
  };
  const loop = (stream: string, consumer: string, handle: (subject: string, bytes: Uint8Array) => Promise<void>) =>
    startPullLoop({
      jetstream: gateway.broker.jetstream,
      stream,
      consumer,
      concurrency: CALLS_AT_ONCE,
      logger,
      handle: async (message) => {
        await handle(message.subject, message.data);
        return 'ack';
      },
    });
  const loops = [
    loop(STREAMS.calls, consumers.gatewayCalls, (subject, bytes) => takeMessage(gateway, subject, bytes)),
    loop(STREAMS.outcomes, consumers.gatewayOutcomes, (subject, bytes) => takeOutcome(gateway, subject, bytes)),
  ];
  const sweep = startSweep(gateway);
  const outside = await startNotifying(config, gateway);
  const http = await startHttp(config, gateway, outside);
  return {
    port: http.port,
    routes: http.routes,
    stop: async () => {
      await http.stop();
      await outside.stop();
      await Promise.all(loops.map((running) => running.stop()));
      await sweep.stop();
      audit.close();
      gateway.guardian.close();
      await connection.drain();
    },
  };
}
