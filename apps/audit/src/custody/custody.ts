import { randomBytes, randomUUID } from 'node:crypto';
import { err, FaultError, makeId, ok, type Result } from '@countersign/kernel';
import { AppendRequest, ERROR_CODES } from '@countersign/protocol';
import type pg from 'pg';
import type { PayloadKeys } from '../payload/payload-keys.ts';
import type { Sequencer } from '../sequencer/sequencer.ts';
import { PartitionDrop } from './drop-partition.ts';
import { type HoldValue, heldSessions, readHolds } from './held.ts';
import { type CustodyScope, parseScope } from './scope.ts';

/** Sessions that one request ends; their names fit into one document. */
const MAX_SESSIONS = 2_000;
/** Sessions looked at in one step of retention. */
const PAGE = 1_000;
const MAX_HOLDS = 1_000;
const MAX_TEXT = 1_000;
const DAY_MS = 86_400_000;

export type CustodyRefusal = { readonly code: 'invalid' | 'not_found' | 'refused'; readonly message: string };
/** What retention ended, or would end; `more` when asking again may end more. */
type RetentionDone = {
  readonly sessions: number;
  readonly held: number;
  readonly more: boolean;
  readonly entries: number;
  readonly keptBecause: string;
};
type Outcome<T> = Promise<Result<T, CustodyRefusal>>;
/** Who asks for what, and why. */
export type CustodyWish = { readonly scope: string; readonly reason: string; readonly subject: string };
/** An erasure under way, as its document keeps it; after a crash it is ended at the next start. */
type ErasureValue = CustodyWish & { readonly state: 'begun' | 'done'; readonly sessions: readonly string[] };

export type CustodyOptions = {
  readonly sequencer: Sequencer;
  readonly payloads: PayloadKeys;
  readonly reader: pg.Pool;
  /** The sequencer's own connection. */
  readonly writer: pg.ClientBase;
  /** Streams and publications that have not taken every entry before an index. */
  readonly behind: (index: number) => readonly string[];
  /** Days that entries are kept. */
  readonly entryDays: number;
  /** Resolves with how many entries the index covers, once it covers those asked for or gave up. */
  readonly indexed: (size: number) => Promise<number>;
  /** Days that payloads are readable after the last entry of their session. */
  readonly payloadDays: number;
  /** Days that copies of the key folder live on; 0 where there are none. */
  readonly keyCopyDays: number;
  readonly now: () => number;
};

const refuse = (code: CustodyRefusal['code'], message: string) => err({ code, message });
const json = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
const isText = (text: string): boolean =>
  text !== '' && text.length <= MAX_TEXT && text.isWellFormed() && !text.includes('\0');

const SESSIONS_OF: Readonly<Record<'session' | 'agent' | 'principal', string>> = {
  session: 'f.session_id = $1',
  agent: 'f.agent = $1',
  principal: 'f.principal = $1',
};

/**
 * Holds, erasure and the end of payloads. INVARIANT: a key is destroyed only after an entry says that it will be, and never
 * under a hold; one act at a time, so that no hold comes between the look and the act.
 */
export class Custody {
  readonly #options: CustodyOptions;
  readonly #partitions: PartitionDrop;
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: CustodyOptions) {
    this.#options = options;
    this.#partitions = new PartitionDrop(options);
  }

  /** Ends what a process before this one began. */
  async resume(): Promise<void> {
    const { rows } = await this.#options.reader.query<{ key: string; value: ErasureValue; version: string }>(
      "select key, value, version from audit.document where kind = 'erasure' and value->>'state' = 'begun'",
    );
    for (const { key, value, version } of rows) await this.#destroy(key, value, BigInt(version));
    await this.#partitions.resume();
  }

  holds(): Promise<HoldValue[]> {
    return readHolds(this.#options.reader);
  }

  setHold(wish: CustodyWish): Outcome<HoldValue[]> {
    return this.#alone(async () => {
      const wrong = checkTexts(wish);
      if (wrong !== undefined) return refuse('invalid', wrong);
      if (!parseScope(wish.scope))
        return refuse('invalid', 'a scope is all, session:ID, agent:ID, principal:NAME or range:FIRST-LAST');
      const holds = await this.holds();
      if (holds.some(({ scope }) => scope === wish.scope)) return ok(holds);
      if (holds.length >= MAX_HOLDS) return refuse('invalid', `${MAX_HOLDS} holds are set; hold \`all\` instead`);
      await this.#recordHold('hold.set', wish, 'set');
      return ok(await this.holds());
    });
  }

  releaseHold(wish: CustodyWish): Outcome<HoldValue[]> {
    return this.#alone(async () => {
      const wrong = checkTexts(wish);
      if (wrong !== undefined) return refuse('invalid', wrong);
      if (!(await this.holds()).some(({ scope }) => scope === wish.scope))
        return refuse('not_found', `\`${wish.scope.slice(0, 200)}\` is not held`);
      await this.#recordHold('hold.released', wish, 'released');
      return ok(await this.holds());
    });
  }

  /** Destroys the keys of a scope's sessions. Refused whole while a hold keeps one of them, or a call of one is open. */
  erase(wish: CustodyWish): Outcome<{ sessions: number; remaining: number; lastCopyEnds: string }> {
    return this.#alone(async () => {
      const scope = parseScope(wish.scope);
      const wrong = checkTexts(wish);
      if (wrong !== undefined) return refuse('invalid', wrong);
      if (!scope || scope.kind === 'all' || scope.kind === 'range')
        return refuse('invalid', 'what can be erased is session:ID, agent:ID or principal:NAME');
      await this.#catchUp();
      const sessions = await this.#sessionsOf(scope);
      if (sessions.length === 0) return refuse('not_found', 'no payload of this scope is readable');
      const held = await heldSessions(this.#options.reader, sessions, await this.holds());
      if (held.size > 0) return refuse('refused', `a hold keeps ${held.size} of its sessions; release it first`);
      const open = await this.#openSessions(sessions);
      if (open.size > 0) return refuse('refused', `${open.size} of its sessions have open calls; end them first`);
      const taken = sessions.slice(0, MAX_SESSIONS);
      await this.#end(wish, taken);
      const remaining = sessions.length - taken.length;
      return ok({ sessions: taken.length, remaining, lastCopyEnds: this.#lastCopyEnds() });
    });
  }

  /**
   * Ends the payloads of sessions that are past their time, then drops the oldest partition when all its entries are; with
   * `apply` false only counts them. `keptBecause` says why the partition stays; empty when it does not.
   */
  applyRetention(subject: string, apply: boolean): Outcome<RetentionDone> {
    return this.#alone(async () => {
      if (!isText(subject)) return refuse('invalid', 'say who');
      await this.#catchUp();
      const { payloadDays, now } = this.#options;
      const holds = await this.holds();
      const due: string[] = [];
      let held = 0;
      let after = '';
      while (due.length < MAX_SESSIONS) {
        const page = await this.#pastSessions(now() - payloadDays * DAY_MS, after);
        const readable = await this.#readable(page);
        const kept = await heldSessions(this.#options.reader, readable, holds);
        const open = await this.#openSessions(readable);
        held += kept.size;
        due.push(...readable.filter((session) => !kept.has(session) && !open.has(session)));
        after = page.at(-1) ?? '';
        if (page.length < PAGE) break;
      }
      const taken = due.slice(0, MAX_SESSIONS);
      const reason = `payloads are kept ${payloadDays} days`;
      if (apply && taken.length > 0) await this.#end({ scope: 'retention', reason, subject }, taken);
      await this.#catchUp();
      const { first, until, keptBecause } = await this.#partitions.oldest();
      const entries = keptBecause === '' ? until - first : 0;
      if (apply && entries > 0) await this.#partitions.drop(subject);
      const more = due.length >= MAX_SESSIONS || (apply && entries > 0);
      return ok({ sessions: taken.length, held, more, entries, keptBecause });
    });
  }

  #alone<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#last.then(work, work);
    this.#last = next.catch(() => undefined);
    return next;
  }

  async #catchUp(): Promise<void> {
    const { size } = this.#options.sequencer.head;
    if ((await this.#options.indexed(size)) >= size) return;
    throw new FaultError('the index is behind the log; ask again', { code: ERROR_CODES.auditBusy, retryable: true });
  }

  async #readable(sessions: readonly string[]): Promise<string[]> {
    return sessions.filter((session) => this.#options.payloads.has(session));
  }

  async #sessionsOf(scope: Extract<CustodyScope, { id: string }>): Promise<string[]> {
    const { rows } = await this.#options.reader.query<{ session_id: string }>(
      `select distinct f.session_id from audit.fact f where ${SESSIONS_OF[scope.kind]} and f.session_id is not null order by 1`,
      [scope.id],
    );
    return this.#readable(rows.map((row) => row.session_id));
  }

  async #pastSessions(beforeMs: number, after: string): Promise<string[]> {
    const { rows } = await this.#options.reader.query<{ session_id: string }>(
      `select distinct f.session_id from audit.fact f where f.session_id > $2 and f.log_index < audit.index_at($1)
       and not exists (select from audit.fact g where g.session_id = f.session_id and g.log_index >= audit.index_at($1)) order by 1 limit ${PAGE}`,
      [beforeMs, after],
    );
    return rows.map((row) => row.session_id);
  }

  async #openSessions(sessions: readonly string[]): Promise<Set<string>> {
    const { rows } = await this.#options.reader.query<{ session_id: string }>(
      `select distinct session_id from audit.call where session_id = any($1)
       and state in ('received', 'pending', 'approved', 'dispatched', 'running', 'backgrounded', 'handed_over')`,
      [sessions],
    );
    return new Set(rows.map((row) => row.session_id));
  }

  #lastCopyEnds(): string {
    const { now, keyCopyDays } = this.#options;
    return new Date(now() + keyCopyDays * DAY_MS).toISOString().slice(0, 10);
  }

  /** What will be done is said, done, and said to be done. */
  async #end(wish: CustodyWish, sessions: readonly string[]): Promise<void> {
    const key = `era_${randomUUID()}`;
    const value: ErasureValue = { ...wish, state: 'begun', sessions };
    const detail = { what: 'erasure.begun', erasure: key, ...wish, sessions: sessions.length };
    await this.#record('admin.changed', `ent_${key}_begun`, detail, { kind: 'erasure', key, value, version: 0n });
    await this.#destroy(key, value, 1n);
  }

  async #destroy(key: string, value: ErasureValue, version: bigint): Promise<void> {
    const { sequencer, payloads } = this.#options;
    await sequencer.between(async () => {
      for (const session of value.sessions) await payloads.destroy(session);
    });
    const { scope, reason, subject, sessions } = value;
    const detail = {
      ...{ erasure: key, scope, reason, subject, sessions: sessions.length },
      last_copy_ends: this.#lastCopyEnds(),
    };
    const done: ErasureValue = { ...value, state: 'done' };
    await this.#record('erasure.done', `ent_${key}_done`, detail, { kind: 'erasure', key, value: done, version });
  }

  async #recordHold(type: string, wish: CustodyWish, state: HoldValue['state']): Promise<void> {
    const { reader, now } = this.#options;
    const { rows } = await reader.query<{ version: string }>(
      "select version from audit.document where kind = 'hold' and key = $1",
      [wish.scope],
    );
    const version = BigInt(rows[0]?.version ?? 0);
    const value: HoldValue = { ...wish, set_ms: now(), state };
    const change = { kind: 'hold', key: wish.scope, value, version };
    await this.#record(type, makeId('ent', now(), randomBytes), wish, change);
  }

  async #record(
    type: string,
    id: string,
    detail: object,
    change: { kind: string; key: string; value: object; version: bigint },
  ): Promise<void> {
    const { sequencer, now } = this.#options;
    const { kind, key, value, version } = change;
    const { refusal } = await sequencer.appendOwn(
      AppendRequest.fromPartial({
        entries: [{ id, type, stream: 'custody', emittedMs: BigInt(now()), body: json({ detail }) }],
        documents: [{ kind, key, value: json(value), expectedVersion: version }],
      }),
    );
    if (!refusal) return;
    throw new FaultError(`the record refused \`${type}\`: ${refusal.message}`, { code: ERROR_CODES.auditInvalid });
  }
}

function checkTexts({ reason, subject }: CustodyWish): string | undefined {
  if (isText(reason) && isText(subject)) return undefined;
  return `say who and why, in plain text of at most ${MAX_TEXT} characters`;
}
