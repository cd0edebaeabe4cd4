import { commonConfigSchema, serverTlsSchema } from '@countersign/service-kit';
import { z } from 'zod';
import { readWitness } from './proofs/cosignatures.ts';
import { publicationsSchema } from './publish/publish-config.ts';
import { streamsSchema } from './streams/stream-config.ts';

/** Configuration of the audit service. */
export const auditConfigSchema = commonConfigSchema.extend({
  /** Owner connection: migrations, then the writer role without privileges beyond appending. */
  databaseUrl: z.string().min(1),
  /** Login that serves after the migrations, a member of `countersign_writer`; without it `databaseUrl` steps down to that role. */
  writerUrl: z.string().min(1).optional(),
  /** Key that signs checkpoints; another than the one that signs receipts. */
  logIdentityFile: z.string().min(1),
  listen: z.object({ host: z.string().min(1), port: z.int().min(0).max(65_535) }),
  /** Absent: it listens on loopback alone. */
  tls: serverTlsSchema.optional(),
  /** How often the right to write is renewed, and how long it lasts without that; a standby waits as long. */
  lease: z
    .object({ renewMs: z.int().min(100).max(10_000), ttlMs: z.int().min(1_000).max(60_000) })
    .refine(({ renewMs, ttlMs }) => ttlMs >= 3 * renewMs, 'ttlMs is at least three times renewMs')
    .default({ renewMs: 2_000, ttlMs: 8_000 }),
  /**
   * Where the newest checkpoint is kept outside of the database and its backups; a log that falls behind it does not start.
   * Without it a rolled-back database is not noticed here, only by those who keep checkpoints.
   */
  checkpointFile: z.string().min(1).optional(),
  /** Wrapped data keys of the payloads and, unless `payloadMasterKeyFile` names another place, their master key. Outside database and backups of it. */
  payloadKeyFolder: z.string().min(1),
  payloadMasterKeyFile: z.string().min(1).optional(),
  /** Origin of the checkpoints. */
  logName: z.string().regex(/^[^\s+]{1,128}$/),
  /** Witnesses whose cosignatures are kept, as C2SP verifier keys of type 4: `name+id+base64`. */
  witnesses: z
    .array(z.string().refine((text) => readWitness(text) !== undefined, 'is no witness key'))
    .max(16)
    .default([]),
  /**
   * How long payloads stay readable after the last entry of their session, and how long copies of the key folder live on
   * elsewhere (0: none are made), which `erasure.done` names.
   */
  retention: z
    .strictObject({
      payloadDays: z.int().min(184).max(36_500).default(400),
      /** Days that entries are kept; partitions whose newest entry is older are dropped when retention is applied. */
      entryDays: z.int().min(184).max(36_500).default(400),
      keyCopyDays: z.int().min(0).max(36_500).default(0),
    })
    .refine(({ payloadDays, entryDays }) => entryDays >= payloadDays, 'entries are kept as long as payloads')
    .prefault({}),
  /** Entries of a partition that is made from now on; only whole partitions are dropped. */
  partitionEntries: z.int().min(256).max(16_777_216).multipleOf(256).default(1_048_576),
  streams: streamsSchema,
  publications: publicationsSchema,
});

export type AuditConfig = z.infer<typeof auditConfigSchema>;
