import { homedir } from 'node:os';
import type { AtStep, Clock } from '@countersign/kernel';
import { type Identity, type KnownRoster, subjects } from '@countersign/protocol';
import {
  connectNats,
  inboxPrefix,
  knownRoster,
  type Logger,
  loadIdentity,
  type NatsConnection,
  type RunningService,
} from '@countersign/service-kit';
import type { RunnerConfig } from './config.ts';
import { controlRoute } from './control-route.ts';
import { startHeartbeat } from './heartbeat.ts';
import { Hooks } from './hooks/hooks.ts';
import { inspectRoute } from './inspect-route.ts';
import { hasRoom } from './journal/has-room.ts';
import { type Journal, openJournal } from './journal/journal.ts';
import { OutputPublisher } from './processes/output-publisher.ts';
import { ProcessTable } from './processes/process-table.ts';
import { AssertionGate } from './work/assertion-gate.ts';
import { BeatWatch } from './work/beat-watch.ts';
import { BrokerLink } from './work/broker-link.ts';
import type { HostTools } from './work/host-tools.ts';
import { KnownApprovers } from './work/known-approvers.ts';
import { OrderRunner } from './work/order-runner.ts';
import { OutcomeOutbox } from './work/outcome-outbox.ts';
import { Readiness } from './work/readiness.ts';
import type { RunnerStep } from './work/runner-step.ts';
import { Witness } from './work/witness.ts';
import { WorkLoop } from './work/work-loop.ts';

const FLUSH_MS = 2_000;
const PROOF_TIMEOUT_MS = 5_000;
const VERSION = '0.1.0';

export type RunnerDependencies = {
  readonly tools: HostTools;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly atStep: AtStep<RunnerStep>;
  /** Accounts that may own the pins beside root; only tests name any. */
  readonly pinOwners?: readonly number[];
  /** The runner cannot go on; its process must end. */
  readonly onFault: (error: unknown) => void;
};

type Keys = {
  readonly identity: Identity;
  readonly roster: KnownRoster;
  readonly isAudit: (issuer: string) => boolean;
  readonly controlSealKey: () => string;
  readonly isGateway: (issuer: string) => boolean;
};

function keysOf(config: RunnerConfig, identity: Identity, clock: Clock): Keys {
  const roster = knownRoster(config, { now: () => clock.now(), keptFile: `${config.journalFile}.roster` });
  const { auditKey } = config;
  return {
    identity,
    roster,
    isAudit: (issuer) => (auditKey === undefined ? roster.isKey('audit', issuer) : issuer === auditKey),
    controlSealKey: () => roster.key('control').sealKey,
    isGateway: (issuer) => roster.isKey('gateway', issuer),
  };
}

/** Hands each message of `subject` to `take`, with the subject that the broker delivered on. */
function listen(
  connection: NatsConnection,
  subject: string,
  take: (message: { data: Uint8Array; subject: string; respond: (data: Uint8Array) => boolean }) => void,
): void {
  connection.subscribe(subject, {
    callback: (error, message) => {
      if (error) return;
      take({ data: message.data, subject: message.subject, respond: (data) => message.respond(data) });
    },
  });
}

type Parts = Keys & RunnerDependencies & { config: RunnerConfig; connection: NatsConnection; journal: Journal };

function buildParts(parts: Parts) {
  const { config, connection, journal, clock, logger, tools, isAudit, roster } = parts;
  const { host, masks, maxRunning, maxBackground } = config;
  const link = new BrokerLink(connection);
  const witness = new Witness({
    ...{ identity: parts.identity, clock, logger },
    file: `${config.journalFile}.log-checkpoint`,
    logKeys: () => {
      const keys = roster.current.members.filter(({ role }) => role === 'log').map(({ signKey }) => signKey);
      return keys.filter((key) => roster.isKey('log', key));
    },
    ask: async (request) =>
      (await connection.request(subjects.proof(host), request, { timeout: PROOF_TIMEOUT_MS })).data,
  });
  const beats = new BeatWatch(isAudit, clock, () => witness.stale());
  const approvers = new KnownApprovers(`${config.journalFile}.approvers`, config.rootKey);
  const pinOwners = parts.pinOwners ?? [];
  const approversVersion = () => beats.current()?.approversVersion ?? 0;
  const gate = new AssertionGate({ pinsFile: config.pinsFile, pinOwners, approvers, approversVersion, clock });
  const readiness = new Readiness({
    tools,
    beats,
    isJournalFull: journal.isFull,
    hasRoom: () => hasRoom(config.journalFile, config.minFreeBytes),
    pins: () => gate.notReady(),
    log: () => witness.fault(),
  });
  const outbox = new OutcomeOutbox({ ...parts, link, host });
  const processes = new ProcessTable();
  const runner = new OrderRunner({
    ...parts,
    host,
    beats,
    masks,
    maxRunning,
    maxBackground,
    processes,
    hooks: new Hooks(config.hooks, logger),
    output: new OutputPublisher({ ...parts, link, host }),
    unready: () => readiness.reason(),
    rosterVersion: () => roster.version,
    unproven: (order) => gate.refusal(order),
    started: (receipt) => witness.acted(receipt),
    outcomeReady: (orderId) => outbox.add(orderId),
    progress: (orderId, outcome) => outbox.addProgress(orderId, outcome),
  });
  const loop = new WorkLoop({ connection, link, host, runner, maxRunning, onFault: parts.onFault, logger });
  return { link, beats, witness, readiness, approvers, gate, outbox, runner, loop, processes };
}

function listenToAll(
  parts: Parts,
  { beats, witness, approvers, runner, outbox, processes }: ReturnType<typeof buildParts>,
): void {
  const { config, connection, logger, roster, tools } = parts;
  const { host, masks, maxBackground } = config;
  const { orders } = runner;
  const freeze = (epoch: bigint, scopes: readonly string[]) => beats.hold(epoch, scopes);
  const control = controlRoute({
    ...parts,
    host,
    stop: (orderId, callId, reason) => orders.stop(orderId, callId, reason),
    revoke: (orderId, callId, reason) => orders.revoke(orderId, callId, reason),
    background: (orderId, callId) => orders.sendToBackground(orderId, callId, maxBackground),
    endSession: (sessionId, reason, all) => {
      orders.endSession(sessionId, reason, all);
      if (all) tools.endSession(sessionId).catch((error) => logger.warn({ err: error }, 'session is not ended'));
    },
    recorded: (orderId, state) => outbox.acknowledge(orderId, state),
    freeze,
  });
  const inspect = inspectRoute({ ...parts, host, masks, processes });
  listen(connection, subjects.beat(), ({ data }) => {
    const beat = beats.take(data) ? beats.current() : undefined;
    if (!beat) return;
    orders.keepTo(beat);
    witness.see(beats.checkpoint()).catch(parts.onFault);
  });
  // Whoever sends these, only the root's signature makes them count.
  listen(connection, subjects.roster(), ({ data }) => roster.take(data));
  listen(connection, subjects.approvers(), ({ data }) => approvers.take(data));
  listen(connection, subjects.control(host), ({ data, subject }) => control(data, subject));
  listen(connection, subjects.inspect(host), ({ data, subject, respond }) => {
    inspect(data, subject).then(
      (reply) => reply && respond(reply),
      (error) => logger.error({ err: error }, 'inspection failed'),
    );
  });
}

/**
 * Starts the runner of one host: reports what an earlier process left, listens, tests itself, then takes orders. `stop`
 * kills what runs, journals it as stopped and sends what it can; the rest is sent after the next start.
 */
export async function startRunner(config: RunnerConfig, dependencies: RunnerDependencies): Promise<RunningService> {
  const { clock, tools } = dependencies;
  const identity = await loadIdentity(config.identityFile);
  const keys = keysOf(config, identity, clock);
  const journal = await openJournal(config.journalFile, clock);
  const prefix = inboxPrefix(identity.role, identity.id);
  const connection = await connectNats({
    url: config.natsUrl,
    seed: () => identity.seed,
    name: `runner ${config.host}`,
    inboxPrefix: prefix,
  }).catch(async (error: unknown) => {
    await journal.close();
    throw error;
  });
  const parts: Parts = { ...keys, ...dependencies, config, connection, journal };
  const built = buildParts(parts);
  const { link, beats, readiness, gate, outbox, runner, loop } = built;
  await runner.reportInterrupted();
  listenToAll(parts, built);
  // The broker knows of every subscription before anybody is told that this host is there.
  await connection.flush();
  outbox.start();
  await readiness.start();
  const endHeartbeat = startHeartbeat({
    ...parts,
    link,
    host: config.host,
    journal,
    home: config.runAs?.home ?? homedir(),
    version: VERSION,
    running: () => runner.running,
    selfTest: () => readiness.selfTest(),
    unready: () => readiness.reason(),
    freezeEpoch: () => beats.freezeEpoch(),
    pinnedClasses: () => gate.classes(),
    rosterVersion: () => keys.roster.version,
  });
  loop.start();
  return {
    stop: async () => {
      endHeartbeat();
      readiness.stop();
      const looped = loop.stop();
      await runner.drain();
      await tools.close();
      await outbox.stop(FLUSH_MS);
      await looped;
      await connection.close();
      await journal.close();
    },
  };
}
