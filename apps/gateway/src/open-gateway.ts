import { type AtStep, FaultError, passEachStep } from '@countersign/kernel';
import { GuardianClient } from '@countersign/protocol';
import { connectNats, grpcClient, inboxPrefix, knownRoster, type Logger, loadIdentity } from '@countersign/service-kit';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { Rosters } from './access/rosters.ts';
import { followBroker } from './broker/follow-broker.ts';
import { followOutput } from './broker/follow-output.ts';
import { GatewayBus } from './broker/gateway-bus.ts';
import { Hosts } from './broker/hosts.ts';
import { Journals } from './broker/journals.ts';
import { LiveOutput } from './broker/live-output.ts';
import { ensureStreams, ensureWorkConsumer } from './broker/streams.ts';
import { OpinionDesk } from './calls/guardian-opinions.ts';
import { WaitingCalls } from './calls/waiting-calls.ts';
import type { GatewayConfig } from './config.ts';
import type { Gateway } from './context.ts';
import { EventHub } from './event-hub.ts';
import { FreezeWatch } from './freeze/freeze-watch.ts';
import type { GatewayStep } from './gateway-step.ts';
import { openPeople } from './governance/open-people.ts';
import { GrantLedger } from './grants/grant-ledger.ts';
import { HostFiles } from './layers/host-files.ts';
import { RecordedLayers } from './layers/recorded-layers.ts';
import { Metrics } from './metrics.ts';
import { Reach } from './notify/reach.ts';
import { type PolicyConfig, PolicyDesk } from './policy/policy-desk.ts';
import { readPolicyFile } from './policy/policy-file.ts';
import { AuditLog } from './record/audit-log.ts';
import { ClockWatch } from './record/clock-watch.ts';
import { Members } from './record/members.ts';
import { RequestDesk } from './requests/request-desk.ts';
import { TurnLeases } from './sessions/turn-leases.ts';

/** What tests may put in place of the real clock and of passing each step. */
export type GatewayDependencies = {
  readonly now?: () => number;
  /** Milliseconds that passed for the database too, where a test moves time by hand. */
  readonly passedMs?: () => number;
  readonly atStep?: AtStep<GatewayStep>;
};

/** SECURITY: without a managed layer nobody has said what is allowed, so there is no start. */
function managedLayer({ policyFile, policy }: GatewayConfig): PolicyConfig {
  if (policyFile !== undefined) return readPolicyFile(policyFile);
  if (policy !== undefined) return policy;
  throw new FaultError('the configuration names neither `policyFile` nor `policy`', {
    code: 'countersign.service.misconfigured',
  });
}

const tlsTo = ({ tls }: GatewayConfig, serverName: string) => tls && { ...tls, serverName };

/** The line to the record. Rejects when it cannot be reached, or when this gateway's clock is off. */
async function openRecord(config: GatewayConfig, metrics: Metrics, clock: ClockWatch): Promise<AuditLog> {
  const help = 'Requests to the audit service, appends on the kept stream included';
  const count = metrics.counter('audit_requests', 'rpc', help);
  const audit = new AuditLog(config.auditAddress, count, tlsTo(config, 'audit'), clock);
  await clock.read(() => audit.databaseMs());
  if (!clock.isRight()) throw clock.fault();
  return audit;
}

/** Opens everything that the transitions of a call need. Rejects when a key, the roster, the policy, the broker or the record is missing, or the clock is off. */
export async function openGateway(
  config: GatewayConfig,
  logger: Logger,
  { now = Date.now, passedMs, atStep = passEachStep }: GatewayDependencies = {},
): Promise<Gateway> {
  const policy = new PolicyDesk(managedLayer(config), config.hardened);
  const identity = await loadIdentity(config.identityFile);
  const control = await loadIdentity(config.controlIdentityFile);
  const known = knownRoster(config, { now });
  const connection = await connectNats({
    url: config.natsUrl,
    seed: () => identity.seed,
    name: 'gateway',
    inboxPrefix: inboxPrefix('gateway', identity.id),
  });
  const manager = await jetstreamManager(connection);
  await ensureStreams(manager);
  const metrics = new Metrics();
  const clock = new ClockWatch({ now, passedMs });
  const audit = await openRecord(config, metrics, clock);
  const rosters = new Rosters({ known, audit, rootKey: config.rootKey, now });
  rosters.follow(connection);
  await rosters.open();
  const members = new Members(audit);
  await members.refresh();
  for (const host of members.hosts()) await ensureWorkConsumer(manager, host.id);
  const hosts = new Hosts(members, await Journals.open(audit, now));
  const freeze = new FreezeWatch();
  followBroker(connection, hosts, freeze, { isAudit: (key) => known.isKey('audit', key), now });
  const common = { audit, identity, isGateway: (key: string) => known.isKey('gateway', key), now, logger };
  const bus = new GatewayBus({ ...common, connection });
  const hub = new EventHub();
  const grants = new GrantLedger({ ...common, jetstream: jetstream(connection), manager });
  await grants.open(await bus.othersRun());
  bus.answerPings();
  return {
    ...openPeople(config, { audit, policy, control, now }),
    audit,
    clock,
    metrics,
    rosters,
    members,
    hosts,
    grants,
    policy,
    hostFiles: new HostFiles({ connection, identity, now }),
    layers: await RecordedLayers.open(audit, now),
    requests: new RequestDesk(audit, now),
    guardian: grpcClient(GuardianClient, config.guardianAddress, tlsTo(config, 'guardian')),
    opinions: new OpinionDesk(),
    hub,
    reach: new Reach({ channels: config.channels, hub, bus, now }),
    output: followOutput(connection, new LiveOutput({ audit, members, control, now })),
    followed: new Set(),
    inWork: new Set(),
    identity,
    control,
    isGateway: common.isGateway,
    broker: { connection, jetstream: jetstream(connection), manager, bus },
    freeze,
    turns: new TurnLeases(),
    waiting: new WaitingCalls(),
    now,
    atStep,
    startedMs: now(),
    get queues() {
      return policy.current.queues;
    },
    get hardened() {
      return policy.current.hardened;
    },
    get blockPrivateNetwork() {
      return policy.current.blockPrivateNetwork;
    },
    logger,
  };
}
