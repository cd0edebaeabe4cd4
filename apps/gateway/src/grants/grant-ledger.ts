import { setTimeout as delay } from 'node:timers/promises';
import { FaultError } from '@countersign/kernel';
import { EnvelopeKind, ERROR_CODES, type Identity, openEnvelope, signEnvelope } from '@countersign/protocol';
import type { Logger } from '@countersign/service-kit';
import { type JetStreamClient, type JetStreamManager, StorageType } from '@nats-io/jetstream';
import { type KV, Kvm, type KvWatchEntry } from '@nats-io/kv';
import type { AuditLog } from '../record/audit-log.ts';
import { json } from '../record/entries.ts';
import { grantSchema, type LiveGrant } from './grant.ts';

const BUCKET = 'GRANTS';
const EPOCH_KEY = 'epoch';
const RETRY_MS = 200;
const MAX_TRIES = 25;

export type GrantLedgerOptions = {
  readonly jetstream: JetStreamClient;
  readonly manager: JetStreamManager;
  readonly audit: AuditLog;
  readonly identity: Identity;
  readonly isGateway: (issuer: string) => boolean;
  readonly now: () => number;
  readonly logger: Logger;
};

const subjectOf = (key: string): string => `$KV.${BUCKET}.${key}`;
const keyOf = (grant: Pick<LiveGrant, 'session' | 'id'>): string => `${grant.session}.${grant.id}`;

/**
 * The live grants of all gateways. They exist only in the broker's memory, under the epoch that the record counts.
 * INVARIANT: a grant of another epoch never counts; a lost bucket, an unknown epoch or a grant that no gateway signed is no
 * grant. The record, which is told the epoch with every use, is the last judge.
 */
export class GrantLedger {
  readonly #options: GrantLedgerOptions;
  readonly #live = new Map<string, LiveGrant>();
  #kv: KV | undefined;
  #epoch = 0n;
  #generation = 0;
  #syncing: Promise<void> | undefined;
  #stopped = false;

  constructor(options: GrantLedgerOptions) {
    this.#options = options;
  }

  /** Version of the record's epoch document that the live grants belong to. */
  get epoch(): bigint {
    return this.#epoch;
  }

  /** Joins the running gateways' ledger; alone, it begins an empty one. Rejects when broker or record do not answer. */
  async open(othersRun: boolean): Promise<void> {
    if (othersRun) return this.sync();
    await this.#begin(await this.#recordedEpoch());
    return this.sync();
  }

  stop(): void {
    this.#stopped = true;
    this.#forget();
  }

  /** Live grants of one session. */
  ofSession(session: string): LiveGrant[] {
    return this.all().filter((grant) => grant.session === session);
  }

  all(): LiveGrant[] {
    const nowMs = this.#options.now();
    return [...this.#live.values()].filter((grant) => grant.expires_ms > nowMs);
  }

  /** Grants whose time is over and whose end is not recorded yet. */
  expired(): LiveGrant[] {
    const nowMs = this.#options.now();
    return [...this.#live.values()].filter((grant) => grant.expires_ms <= nowMs);
  }

  /** Makes a recorded grant live at every gateway. */
  async add(grant: LiveGrant): Promise<void> {
    const { identity, now } = this.#options;
    const key = keyOf(grant);
    const message = { kind: EnvelopeKind.GRANT, subject: subjectOf(key), body: json(grant), nowMs: now() };
    await this.#bucket().put(key, signEnvelope(identity, message));
    this.#live.set(key, grant);
  }

  async remove(grant: Pick<LiveGrant, 'session' | 'id'>): Promise<void> {
    this.#live.delete(keyOf(grant));
    await this.#kv?.purge(keyOf(grant));
  }

  /** Reads the grants of a session from the broker, for an answer that must not miss one given a moment ago elsewhere. */
  async refresh(session: string): Promise<void> {
    const kv = this.#kv;
    if (!kv) return;
    for await (const key of await kv.keys(`${session}.*`)) {
      const entry = await kv.get(key);
      if (entry && this.#kv === kv) this.#take(entry);
    }
  }

  /** True while the bucket at the broker is the one that this ledger follows. */
  async isCurrent(): Promise<boolean> {
    const entry = await this.#kv?.get(EPOCH_KEY).catch(() => undefined);
    return entry !== undefined && entry !== null && entry.string() === String(this.#epoch);
  }

  /** Follows the present bucket; where there is none of the recorded epoch, a new and empty epoch begins. */
  sync(): Promise<void> {
    this.#syncing ??= this.#sync().finally(() => {
      this.#syncing = undefined;
    });
    return this.#syncing;
  }

  async #sync(): Promise<void> {
    this.#forget();
    for (let tries = 0; tries < MAX_TRIES && !this.#stopped; tries += 1) {
      const recorded = await this.#recordedEpoch();
      const found = await this.#openBucket();
      const epoch = await found?.get(EPOCH_KEY).catch(() => undefined);
      if (found && epoch?.string() === String(recorded)) return this.#follow(found, recorded);
      // Somebody may be between the record and the bucket; only after a moment of silence a new epoch begins.
      await delay(RETRY_MS);
      if ((await this.#recordedEpoch()) === recorded && !(await this.#holds(recorded))) await this.#begin(recorded);
    }
    throw new FaultError('the ledger of grants cannot be opened', { code: ERROR_CODES.internal, retryable: true });
  }

  async #holds(epoch: bigint): Promise<boolean> {
    const entry = await (await this.#openBucket())?.get(EPOCH_KEY).catch(() => undefined);
    return entry?.string() === String(epoch);
  }

  async #openBucket(): Promise<KV | undefined> {
    const { jetstream, manager } = this.#options;
    const exists = await manager.streams.info(`KV_${BUCKET}`).catch(() => undefined);
    return exists ? new Kvm(jetstream).open(BUCKET) : undefined;
  }

  /** Records a new epoch and makes its empty bucket. Does nothing when another gateway was first. */
  async #begin(recorded: bigint): Promise<void> {
    const { audit, identity, jetstream, manager, now } = this.#options;
    const epoch = recorded + 1n;
    const reply = await audit.append({
      entries: [
        {
          id: `ent_grants_epoch_${epoch}`,
          type: 'admin.changed',
          stream: 'grants',
          emittedMs: BigInt(now()),
          body: json({
            detail: { what: 'grants.epoch', by: identity.id, epoch: Number(epoch), ended: 'every earlier grant' },
          }),
        },
      ],
      documents: [{ kind: 'grants', key: 'epoch', value: json({}), expectedVersion: recorded }],
    });
    if (reply.refusal) return;
    await manager.streams.delete(`KV_${BUCKET}`).catch(() => false);
    const options = { history: 1, storage: StorageType.Memory, allow_direct: false };
    const kv = await new Kvm(jetstream).create(BUCKET, options);
    await kv.put(EPOCH_KEY, String(epoch));
  }

  async #recordedEpoch(): Promise<bigint> {
    return (await this.#options.audit.listDocuments('grants', 'epoch'))[0]?.version ?? 0n;
  }

  async #follow(kv: KV, epoch: bigint): Promise<void> {
    this.#kv = kv;
    this.#epoch = epoch;
    const generation = this.#generation;
    const { promise, resolve } = Promise.withResolvers<void>();
    const watch = await kv.watch();
    const follow = async () => {
      for await (const entry of watch) {
        if (generation !== this.#generation) return watch.stop();
        this.#take(entry);
        // The epoch is a key of every bucket, so that there is a last entry to wait for.
        if (entry.delta === 0) resolve();
      }
    };
    void follow()
      .catch((error: unknown) => this.#options.logger.warn({ err: error }, 'the ledger of grants was lost'))
      .finally(() => {
        if (generation === this.#generation && !this.#stopped) void this.sync().catch(() => undefined);
      });
    await promise;
  }

  #take(entry: Pick<KvWatchEntry, 'key' | 'operation' | 'value'>): void {
    if (entry.key === EPOCH_KEY) return;
    if (entry.operation !== 'PUT') this.#live.delete(entry.key);
    else {
      const grant = this.#read(entry.key, entry.value);
      if (grant) this.#live.set(entry.key, grant);
    }
  }

  #read(key: string, bytes: Uint8Array): LiveGrant | undefined {
    const { isGateway, now, logger } = this.#options;
    const expected = { kind: EnvelopeKind.GRANT, subject: subjectOf(key), issuer: isGateway, nowMs: now() };
    const opened = openEnvelope(bytes, expected);
    const grant = opened.ok
      ? grantSchema.safeParse(JSON.parse(new TextDecoder().decode(opened.value.body)))
      : undefined;
    if (grant?.success && BigInt(grant.data.epoch) === this.#epoch && keyOf(grant.data) === key) return grant.data;
    logger.warn({ key }, 'a grant in the ledger is not one of this epoch or not signed by a gateway');
    return undefined;
  }

  #forget(): void {
    this.#generation += 1;
    this.#live.clear();
    this.#kv = undefined;
  }

  #bucket(): KV {
    if (this.#kv) return this.#kv;
    throw new FaultError('the ledger of grants is not open', { code: ERROR_CODES.internal, retryable: true });
  }
}
