import type { NoteVerifier, TreeHead } from '@countersign/merkle';
import { EvidenceService, type Identity } from '@countersign/protocol';
import type { Logger } from '@countersign/service-kit';
import pg from 'pg';
import { logVerifier as verifierOf } from '../proofs/cosignatures.ts';
import { openPublications } from '../publish/open-publications.ts';
import type { PublicationConfig } from '../publish/publish-config.ts';
import { evidenceRoutes } from '../routes/evidence-routes.ts';
import type { StoredCheckpoint } from '../sequencer/checkpoint-store.ts';
import { openStreams } from '../streams/open-streams.ts';
import type { StreamConfig } from '../streams/stream-config.ts';
import { FactIndex } from './fact-index.ts';

/** How often the index looks whether the log has grown. */
const FOLLOW_MS = 200;
const POOL = 3;

export type EvidenceOptions = {
  readonly url: string;
  readonly reader: pg.Pool;
  readonly head: () => TreeHead;
  readonly checkpointOf: (head: TreeHead) => string;
  readonly receiptIdentity: Identity;
  readonly logIdentity: Identity;
  readonly logName: string;
  readonly witnesses: readonly NoteVerifier[];
  readonly streams: readonly StreamConfig[];
  readonly publications: readonly PublicationConfig[];
  /** The newest checkpoint that is stored. */
  readonly newest: () => StoredCheckpoint;
  readonly now: () => number;
  readonly logger: Logger;
};

/** What an auditor asks of a running audit service: the gRPC service, and the index behind it that follows the log. */
export function openEvidence(options: EvidenceOptions) {
  const { logger, logName, logIdentity, head, newest, now } = options;
  const pool = new pg.Pool({
    connectionString: options.url,
    max: POOL,
    options: '-c role=countersign_writer -c statement_timeout=60000 -c idle_in_transaction_session_timeout=60000',
    application_name: 'countersign-audit-index',
  });
  pool.on('error', (error) => logger.warn({ err: error }, 'a connection of the index was lost'));
  const facts = new FactIndex(pool, (error) => logger.error({ err: error }, 'the index could not follow the log'));
  const logVerifier = verifierOf(logName, logIdentity);
  const streams = openStreams(options.streams, { pool, size: () => head().size, logger });
  const publications = openPublications(options.publications, {
    ...{ pool, verifier: logVerifier, newest, now, logger },
    size: () => head().size,
    indexed: (size) => facts.upTo(size),
  });
  const states = () => [...streams.states(), ...publications.states()];
  const implementation = evidenceRoutes({
    ...options,
    logVerifier,
    facts,
    streams: states,
    pool,
    log: (error) => logger.error({ err: error }, 'a question failed'),
  });
  const timer = setInterval(() => facts.follow(head().size), FOLLOW_MS);
  return {
    service: { definition: EvidenceService, implementation: implementation as never },
    facts,
    pool,
    /** Streams and publications that have not taken every entry before `index`. */
    behind: (index: number) => states().flatMap(({ name, next }) => (next < index ? [name] : [])),
    stop: async () => {
      clearInterval(timer);
      await streams.stop();
      await publications.stop();
      await facts.stop();
      await pool.end();
    },
  };
}
