import { consumers, STREAMS } from '@countersign/protocol';
import type { Logger, RunningService } from '@countersign/service-kit';
import { startDeskFeed } from './broker/desk-feed.ts';
import { type StepAside, startPullLoop } from './broker/pull-loop.ts';
import { takeOutcome } from './calls/outcome.ts';
import { redecideUnsettled } from './calls/redecide.ts';
import { RESEND_MS, sweepCalls } from './calls/sweep.ts';
import { takeMessage } from './calls/take-message.ts';
import type { GatewayConfig } from './config.ts';
import type { Gateway } from './context.ts';
import { confirmFreezes, refreshFreeze } from './freeze/change-freeze.ts';
import { type HttpServer, startHttp } from './http/server.ts';
import { startNotifying } from './notify/start-notifying.ts';
import { type GatewayDependencies, openGateway } from './open-gateway.ts';
import { readPolicyFile, watchPolicyFile } from './policy/policy-file.ts';
import { adoptConfigured, refreshPolicy } from './policy/publish-policy.ts';

const CONFIRM_MS = 1_000;
const MEMBERS_MS = 2_000;
const SWEEP_MS = 5_000;
const CLOCK_MS = 2_000;
/** A message that comes while the clock is off is left to another gateway, or to later. */
const CLOCK_OFF = { retryMs: 1_000 } as const;
const CALLS_AT_ONCE = 64;

/** Reads the database's clock every few seconds and tells when this gateway's goes off and is right again. */
function followClock({ clock, audit, logger, turns, now }: Gateway): NodeJS.Timeout {
  let wasRight = true;
  const look = () => {
    const isRight = clock.isRight();
    if (isRight === wasRight) return;
    wasRight = isRight;
    if (!isRight) return logger.error({ code: clock.problem().code }, `${clock.problem().message}; nothing is decided`);
    // Nothing was heard of the turns meanwhile.
    turns.renewAll(now());
    logger.info('the clock is right again');
  };
  return setInterval(() => {
    clock
      .read(() => audit.databaseMs())
      .catch((error: unknown) => logger.warn({ err: error }, "the database's clock is not read now"))
      .finally(look);
  }, CLOCK_MS);
}

/** Starts the rounds over unfinished calls; one round never overlaps the next. */
function startSweep(gateway: Gateway): { stop: () => Promise<void> } {
  let round = Promise.resolve();
  let running = false;
  const sweep = (silentMs: number) => {
    // SECURITY: by a clock that is off, calls would expire that have not, and grants live that have ended.
    if (running || !gateway.clock.isRight()) return;
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

/** Keeps to the recorded policy, and publishes what a watched file holds; a bad file is told and changes nothing. */
async function followPolicy(gateway: Gateway, config: GatewayConfig): Promise<() => void> {
  const { policyFile } = config;
  await adoptConfigured(gateway, gateway.policy.current.config, policyFile === undefined ? 'config' : 'file');
  gateway.broker.bus.on('policy', () => {
    refreshPolicy(gateway).catch((error: unknown) =>
      gateway.logger.warn({ err: error }, 'policy is not refreshed yet'),
    );
  });
  gateway.broker.bus.on('layers', () => {
    gateway.layers
      .refresh()
      .catch((error: unknown) => gateway.logger.warn({ err: error }, 'trusts and saved rules are not refreshed yet'));
  });
  if (policyFile === undefined) return () => undefined;
  return watchPolicyFile(policyFile, () => {
    const publish = async () => adoptConfigured(gateway, readPolicyFile(policyFile), 'file');
    publish()
      .then(() => redecideUnsettled(gateway))
      .catch((error: unknown) => gateway.logger.error({ err: error, file: policyFile }, 'policy file is refused'));
  });
}

/** Follows the turns that agents keep alive and ends those that lapsed. */
function startLeases(gateway: Gateway): NodeJS.Timeout {
  const failed = (error: unknown) => gateway.logger.warn({ err: error }, 'a turn is not ended yet');
  gateway.broker.connection.subscribe('cs.v1.lease.*.*', {
    callback: (error, message) => {
      if (!error && gateway.clock.isRight()) gateway.turns.take(gateway, message.subject, message.data).catch(failed);
    },
  });
  return setInterval(() => {
    if (gateway.clock.isRight()) gateway.turns.endLapsed(gateway).catch(failed);
  }, CONFIRM_MS);
}

/** Reads enrolments again, so that keys that were rotated or revoked elsewhere are known within two seconds. */
function followMembers(gateway: Gateway): NodeJS.Timeout {
  const refresh = () => {
    gateway.members
      .refresh()
      .catch((error: unknown) => gateway.logger.warn({ err: error }, 'members are not read yet'));
  };
  gateway.broker.bus.on('members', refresh);
  return setInterval(refresh, MEMBERS_MS);
}

/** Records the hosts' confirmations of freezes and their first journals as they come. */
function startConfirming(gateway: Gateway): NodeJS.Timeout {
  return setInterval(() => {
    if (!gateway.clock.isRight()) return;
    confirmFreezes(gateway).catch((error: unknown) =>
      gateway.logger.warn({ err: error }, 'confirmations of a freeze are not recorded yet'),
    );
    gateway.hosts.journals
      .watch(gateway.hosts.all())
      .catch((error: unknown) => gateway.logger.warn({ err: error }, 'journals of hosts are not recorded yet'));
  }, CONFIRM_MS);
}

/** Starts the gateway. Rejects when a key, the roster, the policy, the broker or the record is missing, or the clock is off: nothing is served then. */
export async function startGateway(
  config: GatewayConfig,
  logger: Logger,
  dependencies: GatewayDependencies = {},
): Promise<RunningService & Omit<HttpServer, 'stop'>> {
  const gateway = await openGateway(config, logger, dependencies);
  const loop = (
    stream: string,
    consumer: string,
    handle: (subject: string, bytes: Uint8Array, aside: StepAside) => Promise<void>,
  ) =>
    startPullLoop({
      jetstream: gateway.broker.jetstream,
      stream,
      consumer,
      concurrency: CALLS_AT_ONCE,
      logger,
      handle: async (message, aside) => {
        if (!gateway.clock.isRight()) return CLOCK_OFF;
        await handle(message.subject, message.data, aside);
        return 'ack';
      },
    });
  const loops = [
    loop(STREAMS.calls, consumers.gatewayCalls, (...taken) => takeMessage(gateway, ...taken)),
    loop(STREAMS.outcomes, consumers.gatewayOutcomes, (subject, bytes) => takeOutcome(gateway, subject, bytes)),
  ];
  const clock = followClock(gateway);
  const members = followMembers(gateway);
  gateway.broker.bus.on('freeze', () => void refreshFreeze(gateway).catch(() => undefined));
  const feed = await startDeskFeed({ ...gateway, ...gateway.broker }, gateway.hub);
  const unwatch = await followPolicy(gateway, config);
  const leases = startLeases(gateway);
  const confirming = startConfirming(gateway);
  const sweep = startSweep(gateway);
  const outside = await startNotifying(config, gateway);
  const http = await startHttp(config, gateway, outside);
  return {
    port: http.port,
    routes: http.routes,
    openapi: http.openapi,
    stop: async () => {
      await http.stop();
      await outside.stop();
      await Promise.all(loops.map((running) => running.stop()));
      unwatch();
      feed.stop();
      clearInterval(clock);
      clearInterval(members);
      clearInterval(leases);
      clearInterval(confirming);
      await sweep.stop();
      gateway.grants.stop();
      gateway.audit.close();
      gateway.guardian.close();
      await gateway.broker.connection.drain();
    },
  };
}
