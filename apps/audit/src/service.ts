import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type AtStep, FaultError, passEachStep } from '@countersign/kernel';
import type { TreeHead } from '@countersign/merkle';
import {
  AppendRequest,
  AuditService,
  Beat,
  EnvelopeKind,
  type Identity,
  type Roster,
  signEnvelope,
  subjects,
} from '@countersign/protocol';
import {
  connectNats,
  inboxPrefix,
  type Logger,
  loadIdentity,
  loadRoster,
  type NatsConnection,
  type RunningService,
  serveGrpc,
} from '@countersign/service-kit';
import pg from 'pg';
import type { AuditConfig } from './config.ts';
import { connectWriter, migrate } from './db/connection.ts';
import { readWitness } from './proofs/cosignatures.ts';
import { openEvidence } from './query/open-evidence.ts';
import { auditRoutes } from './routes/audit-routes.ts';
import type { AuditStep } from './sequencer/audit-step.ts';
import { signCheckpoint } from './sequencer/checkpoints.ts';
import { Sequencer } from './sequencer/sequencer.ts';
import { takeOver } from './sequencer/take-over.ts';

/** Times of architecture.md: a checkpoint each second when something changed, a beat every three. */
const CHECKPOINT_MS = 1_000;
const BEAT_MS = 3_000;

/** SECURITY: receipts and checkpoints under keys that the root does not vouch for would be refused by every host. */
function checkRoster(roster: Roster, identity: Identity, logIdentity: Identity): void {
  for (const [role, held] of [
    ['audit', identity],
    ['log', logIdentity],
  ] as const) {
    const known = roster.members.some((member) => member.role === role && member.signKey === held.publicKey);
    if (!known)
      throw new FaultError(`the roster does not hold the \`${role}\` key of this service; sign a new roster`, {
        code: 'countersign.audit.not_in_roster',
      });
  }
}

/** Entry 0: the digest of the roster that this log began under. */
function firstEntry(rosterFile: string, nowMs: number): AppendRequest {
  const digest = createHash('sha256').update(readFileSync(rosterFile)).digest('hex');
  const body = new TextEncoder().encode(JSON.stringify({ detail: { roster_sha256: digest } }));
  return AppendRequest.fromPartial({
    entries: [{ id: 'ent_log_key.added_1', type: 'key.added', stream: 'audit', emittedMs: BigInt(nowMs), body }],
  });
}

async function appendFirst(sequencer: Sequencer, rosterFile: string, nowMs: number): Promise<void> {
  const { refusal } = await sequencer.append(firstEntry(rosterFile, nowMs));
  if (refusal)
    throw new FaultError(`the first entry was refused: ${refusal.message}`, {
      code: 'countersign.audit.no_first_entry',
    });
}

/** A function that publishes one signed beat. */
function beatOf(
  nats: NatsConnection,
  identity: Identity,
  now: () => number,
  facts: () => Omit<Beat, 'atMs'>,
): () => void {
  let sequence = BigInt(now());
  const subject = subjects.beat();
  return () => {
    const beat: Beat = { ...facts(), atMs: BigInt(now()) };
    sequence += 1n;
    const body = Beat.encode(beat).finish();
    nats.publish(subject, signEnvelope(identity, { kind: EnvelopeKind.BEAT, subject, body, nowMs: now(), sequence }));
  };
}

/** What the beat says of frozen scopes and revoked orders. */
function frozenFacts(sequencer: Sequencer): Omit<Beat, 'atMs' | 'checkpoint'> {
  const freezes = [...sequencer.freezes.freezes.values()];
  return {
    freezeEpoch: sequencer.freezes.epoch,
    frozenScopes: freezes.map((freeze) => freeze.scope),
    stoppedScopes: freezes.filter((freeze) => freeze.stopRunning).map((freeze) => freeze.scope),
    revokedOrders: sequencer.revokedOrders(),
  };
}

/** Connections for reads, which can write nothing. */
function openReader(connectionString: string, logger: Logger): pg.Pool {
  const options = '-c role=countersign_writer -c default_transaction_read_only=on -c statement_timeout=30000';
  const reader = new pg.Pool({ connectionString, max: 4, options });
  reader.on('error', (error) => logger.warn({ err: error }, 'a read connection was lost'));
  return reader;
}

/** A function that stores the checkpoint of the present head when it has grown since the last one. */
function checkpointStore(
  client: pg.Client,
  sequencer: Sequencer,
  checkpointOf: (head: TreeHead) => string,
  atStep: AtStep<AuditStep>,
): () => Promise<void> {
  let stored = -1;
  return async () => {
    const head = sequencer.head;
    if (head.size === stored) return;
    const insert = 'insert into audit.checkpoint values ($1, $2) on conflict (size) do nothing';
    const checkpoint = checkpointOf(head);
    atStep('checkpoint.signed');
    await client.query(insert, [head.size, checkpoint]);
    atStep('checkpoint.stored');
    stored = head.size;
  };
}

/** What tests may put in place of the real clock and of passing each step. */
export type AuditDependencies = { readonly now?: () => number; readonly atStep?: AtStep<AuditStep> };

/**
 * Starts the audit service: migrations, take-over, entry 0, checkpoint, and only then serves. Crash-only: a database fault
 * ends the process, because a commit of unknown outcome must be read back by a fresh one.
 */
export async function startAudit(
  config: AuditConfig,
  logger: Logger,
  { now = Date.now, atStep = passEachStep }: AuditDependencies = {},
): Promise<RunningService & { port: number; sequencer: Sequencer }> {
  const crash = (error: unknown) => {
    logger.fatal({ err: error }, 'the record cannot be written; ending');
    process.exit(1);
  };
  const identity = await loadIdentity(config.identityFile);
  const logIdentity = await loadIdentity(config.logIdentityFile);
  checkRoster(loadRoster(config.rosterFile, config.rootKey), identity, logIdentity);
  await migrate(config.databaseUrl);
  const serveUrl = config.writerUrl ?? config.databaseUrl;
  const client = await connectWriter(serveUrl, crash);
  const loader = await connectWriter(serveUrl, crash);
  const reader = openReader(serveUrl, logger);
  const state = await takeOver(client);
  const options = {
    client,
    loader,
    tenant: config.logName,
    receiptIdentity: identity,
    now,
    atStep,
    onFault: crash,
    ...state,
  };
  const sequencer = new Sequencer(options);
  if (state.log.head.size === 0) await appendFirst(sequencer, config.rosterFile, now());
  const checkpointOf = (head: TreeHead) => signCheckpoint(head, config.logName, logIdentity);

  const storeCheckpoint = checkpointStore(client, sequencer, checkpointOf, atStep);
  await storeCheckpoint();
  const nats = await connectNats({
    url: config.natsUrl,
    seed: identity.seed,
    name: 'audit',
    inboxPrefix: inboxPrefix('audit', identity.id),
  });
  const beat = beatOf(nats, identity, now, () => ({
    checkpoint: checkpointOf(sequencer.head),
    ...frozenFacts(sequencer),
  }));
  const evidence = openEvidence({
    url: serveUrl,
    reader,
    head: () => sequencer.head,
    checkpointOf,
    receiptIdentity: identity,
    logIdentity,
    logName: config.logName,
    witnesses: config.witnesses.flatMap((text) => readWitness(text) ?? []),
    now,
    logger,
  });
  const server = await serveGrpc({
    services: [
      evidence.service,
      {
        definition: AuditService,
        implementation: auditRoutes({
          sequencer,
          reader,
          client,
          receiptIdentity: identity,
          checkpointOf,
          publishBeat: beat,
          now,
          log: (error) => logger.error({ err: error }, 'a read failed'),
        }) as never,
      },
    ],
    ...config.listen,
  });
  beat();
  const timers = [setInterval(() => void storeCheckpoint().catch(crash), CHECKPOINT_MS), setInterval(beat, BEAT_MS)];
  server.setServing(true);
  return {
    port: server.port,
    sequencer,
    stop: async () => {
      for (const timer of timers) clearInterval(timer);
      await server.stop();
      await sequencer.drain();
      await storeCheckpoint();
      await evidence.stop();
      await nats.close();
      await reader.end();
      await loader.end();
      await client.end();
    },
  };
}
