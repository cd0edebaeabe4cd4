import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { type AtStep, FaultError, passEachStep } from '@countersign/kernel';
import type { TreeHead } from '@countersign/merkle';
import {
  AppendRequest,
  AuditService,
  CustodyService,
  ERROR_CODES,
  type Identity,
  type KnownRoster,
} from '@countersign/protocol';
import {
  connectNats,
  inboxPrefix,
  knownRoster,
  type Logger,
  loadIdentity,
  type NatsConnection,
  type RunningService,
  serveGrpc,
} from '@countersign/service-kit';
import pg from 'pg';
import { beatOf, frozenFacts } from './beat.ts';
import type { AuditConfig } from './config.ts';
import { Custody, type CustodyOptions } from './custody/custody.ts';
import { connectWriter, migrate } from './db/connection.ts';
import { type Lease, waitForLease } from './lease/lease.ts';
import { PayloadKeys } from './payload/payload-keys.ts';
import { answerProofs } from './proofs/answer-proofs.ts';
import { logVerifier, readWitness } from './proofs/cosignatures.ts';
import { publishedCheckpoints } from './publish/open-publications.ts';
import { openEvidence } from './query/open-evidence.ts';
import { auditRoutes } from './routes/audit-routes.ts';
import { custodyRoutes } from './routes/custody-routes.ts';
import { adoptDocuments } from './sequencer/adopt-documents.ts';
import type { AuditStep } from './sequencer/audit-step.ts';
import { CheckpointStore } from './sequencer/checkpoint-store.ts';
import { signCheckpoint } from './sequencer/checkpoints.ts';
import { type AcceptedLoss, checkOutside, forgetLoss } from './sequencer/outside-checkpoint.ts';
import { Sequencer } from './sequencer/sequencer.ts';
import { takeOver } from './sequencer/take-over.ts';
import { SignedLists } from './signed-lists.ts';

/** Times of architecture.md: a checkpoint each second when something changed, a beat every three. */
const CHECKPOINT_MS = 1_000;
const BEAT_MS = 3_000;
/** A revoked key or passkey is told to everybody within this time. */
const LISTS_MS = 1_000;

/** SECURITY: receipts and checkpoints under keys that the root does not vouch for would be refused by every host. */
function checkRoster(roster: KnownRoster, identity: Identity, logIdentity: Identity): void {
  for (const [role, held] of [
    ['audit', identity],
    ['log', logIdentity],
  ] as const) {
    if (!roster.isKey(role, held.publicKey))
      throw new FaultError(`the roster does not hold the \`${role}\` key of this service; sign a new roster`, {
        code: ERROR_CODES.auditNotInRoster,
      });
  }
}

/** Entry 0: the digest of the roster that this log began under. */
function firstEntry(rosterFile: string, nowMs: number): AppendRequest {
  const digest = createHash('sha256').update(readFileSync(rosterFile)).digest('hex');
  const body = new TextEncoder().encode(JSON.stringify({ detail: { roster_sha256: digest, documents: [] } }));
  return AppendRequest.fromPartial({
    entries: [{ id: 'ent_log_key.added_1', type: 'key.added', stream: 'audit', emittedMs: BigInt(nowMs), body }],
  });
}

async function appendFirst(sequencer: Sequencer, rosterFile: string, nowMs: number): Promise<void> {
  const { refusal } = await sequencer.appendOwn(firstEntry(rosterFile, nowMs));
  if (refusal)
    throw new FaultError(`the first entry was refused: ${refusal.message}`, {
      code: 'countersign.audit.no_first_entry',
    });
}

/** What was lost is said in the log that goes on without it. */
async function recordLoss(sequencer: Sequencer, file: string, loss: AcceptedLoss, nowMs: number): Promise<void> {
  const detail = { lost_from: sequencer.head.size, lost_to: loss.size, subject: loss.subject, reason: loss.reason };
  const body = new TextEncoder().encode(JSON.stringify({ detail }));
  const id = `ent_log_gap.found_${loss.size}`;
  const entry = { id, type: 'gap.found', stream: 'audit', emittedMs: BigInt(nowMs), body };
  const { refusal } = await sequencer.appendOwn(AppendRequest.fromPartial({ entries: [entry] }));
  if (refusal)
    throw new FaultError(`the loss could not be recorded: ${refusal.message}`, { code: ERROR_CODES.auditRolledBack });
  forgetLoss(file);
}

/** Connections for reads, which can write nothing. */
function openReader(connectionString: string, logger: Logger): pg.Pool {
  const options = '-c role=countersign_writer -c default_transaction_read_only=on -c statement_timeout=30000';
  const reader = new pg.Pool({ connectionString, max: 4, options });
  reader.on('error', (error) => logger.warn({ err: error }, 'a read connection was lost'));
  return reader;
}

/** What tests may put in place of the real clock and of passing each step; `stopping` ends the wait of a standby. */
export type AuditDependencies = {
  readonly now?: () => number;
  readonly atStep?: AtStep<AuditStep>;
  readonly stopping?: AbortSignal;
};

/** Renews the lease until stopped. The first failure ends the process: another may write already. */
function keepLease(lease: Lease, renewMs: number, crash: (error: unknown) => void): NodeJS.Timeout {
  let running = false;
  return setInterval(() => {
    if (running) return;
    running = true;
    lease.renew().then(() => {
      running = false;
    }, crash);
  }, renewMs);
}

type Opened = {
  readonly sequencer: Sequencer;
  readonly payloads: PayloadKeys;
  readonly lease: Lease;
  readonly reader: pg.Pool;
  readonly checkpointOf: (head: TreeHead) => string;
  readonly checkpoints: CheckpointStore;
  readonly close: () => Promise<void>;
};

type Keys = { readonly identity: Identity; readonly logIdentity: Identity };

/** Takes the log over, when this process may; undefined when it was stopped first. */
async function openLog(
  config: AuditConfig,
  { identity, logIdentity }: Keys,
  {
    now,
    atStep,
    stopping,
    logger,
    crash,
  }: Required<AuditDependencies> & { logger: Logger; crash: (e: unknown) => void },
): Promise<Opened | undefined> {
  const databaseUrl = config.writerUrl ?? config.databaseUrl;
  const lease = await waitForLease({
    databaseUrl,
    holder: `${hostname()}:${process.pid}`,
    ttlMs: config.lease.ttlMs,
    stopping,
    onLost: crash,
    onStandby: (holder) => logger.info({ holder }, 'standing by; another process writes the log'),
  });
  if (!lease) return undefined;
  const renewing = keepLease(lease, config.lease.renewMs, crash);
  const loader = await connectWriter(databaseUrl, crash);
  const reader = openReader(databaseUrl, logger);
  const state = await takeOver(lease.writer);
  const file = config.checkpointFile;
  if (file === undefined) logger.warn('no checkpoint file is configured; a rolled-back database would not be noticed');
  const verifier = logVerifier(config.logName, logIdentity);
  const published = await publishedCheckpoints(config.publications, verifier, logger);
  const outside = { file, verifier, published };
  const loss = await checkOutside(outside, lease.writer, state.log.head);
  const payloads = await PayloadKeys.open(config.payloadKeyFolder, config.payloadMasterKeyFile);
  const sequencer = new Sequencer({
    client: lease.writer,
    payloads,
    loader,
    tenant: config.logName,
    receiptIdentity: identity,
    partitionEntries: config.partitionEntries,
    now,
    atStep,
    onFault: crash,
    ...state,
  });
  if (state.log.head.size === 0) await appendFirst(sequencer, config.rosterFile, now());
  await adoptDocuments(sequencer, reader, now());
  if (loss && file !== undefined) await recordLoss(sequencer, file, loss, now());
  const checkpointOf = (head: TreeHead) => signCheckpoint(head, config.logName, logIdentity);
  const checkpoints = new CheckpointStore({
    ...{ client: lease.writer, sign: checkpointOf, atStep, file },
    head: () => sequencer.head,
  });
  const close = async () => {
    await sequencer.drain();
    await checkpoints.store();
    clearInterval(renewing);
    await reader.end();
    await loader.end();
    await lease.release();
    await lease.writer.end();
  };
  return { sequencer, payloads, lease, reader, checkpointOf, checkpoints, close };
}

const openCustody = (
  { sequencer, payloads, reader, lease }: Opened,
  { retention }: AuditConfig,
  rest: Pick<CustodyOptions, 'now' | 'indexed' | 'behind'>,
): Custody => new Custody({ sequencer, payloads, reader, writer: lease.writer, ...retention, ...rest });

/** Publishes what the root signs within a second of its record. */
function followLists(lists: SignedLists, nats: NatsConnection, logger: Logger): NodeJS.Timeout {
  lists.publish(nats);
  return setInterval(() => {
    lists.refresh().then(
      () => lists.publish(nats),
      (error: unknown) => logger.warn({ err: error }, 'roster and approver list are not read yet'),
    );
  }, LISTS_MS);
}

/**
 * Starts the audit service: migrations, lease, take-over, entry 0, checkpoint, and only then serves; until it has the lease it
 * stands by. Crash-only: a database fault ends the process, because a commit of unknown outcome must be read back by a fresh one.
 */
export async function startAudit(
  config: AuditConfig,
  logger: Logger,
  { now = Date.now, atStep = passEachStep, stopping = new AbortController().signal }: AuditDependencies = {},
): Promise<RunningService> {
  const crash = (error: unknown) => {
    logger.fatal({ err: error }, 'the record cannot be written; ending');
    process.exit(1);
  };
  const identity = await loadIdentity(config.identityFile);
  const logIdentity = await loadIdentity(config.logIdentityFile);
  const roster = knownRoster(config, { now });
  await migrate(config.databaseUrl);
  const log = await openLog(config, { identity, logIdentity }, { now, atStep, stopping, logger, crash });
  if (!log) return { stop: () => Promise.resolve() };
  const lists = new SignedLists({ reader: log.reader, roster, rootKey: config.rootKey });
  await lists.refresh();
  checkRoster(roster, identity, logIdentity);
  await log.checkpoints.store();
  const nats = await connectNats({
    url: config.natsUrl,
    seed: () => identity.seed,
    name: 'audit',
    inboxPrefix: inboxPrefix('audit', identity.id),
  });
  const { sequencer, reader, checkpointOf } = log;
  const beat = beatOf(nats, identity, now, () => ({
    checkpoint: log.checkpoints.newest.note,
    ...frozenFacts(sequencer),
    ...lists.versions,
  }));
  const evidence = openEvidence({
    url: config.writerUrl ?? config.databaseUrl,
    reader,
    head: () => sequencer.head,
    checkpointOf,
    receiptIdentity: identity,
    logIdentity,
    logName: config.logName,
    witnesses: config.witnesses.flatMap((text) => readWitness(text) ?? []),
    streams: config.streams,
    publications: config.publications,
    newest: () => log.checkpoints.newest,
    now,
    logger,
  });
  const failed = (error: unknown) => logger.error({ err: error }, 'a request failed');
  const indexed = (size: number) => evidence.facts.upTo(size);
  answerProofs({
    ...{ nats, reader, pool: evidence.pool, now, log: failed, indexed },
    newest: () => log.checkpoints.newest,
  });
  const custody = openCustody(log, config, { now, indexed, behind: evidence.behind });
  await custody.resume();
  const implementation = auditRoutes({
    ...{ sequencer, payloads: log.payloads, reader, checkpointOf, now },
    receiptIdentity: identity,
    publishBeat: beat,
    log: failed,
  });
  const server = await serveGrpc({
    services: [
      evidence.service,
      { definition: AuditService, implementation: implementation as never },
      { definition: CustodyService, implementation: custodyRoutes(custody, failed) as never },
    ],
    ...config.listen,
    tls: config.tls,
  });
  beat();
  const timers = [
    setInterval(() => void log.checkpoints.store().catch(crash), CHECKPOINT_MS),
    setInterval(beat, BEAT_MS),
    followLists(lists, nats, logger),
  ];
  server.setServing(true);
  return {
    stop: async () => {
      for (const timer of timers) clearInterval(timer);
      await server.stop();
      await evidence.stop();
      await log.close();
      await nats.close();
    },
  };
}
