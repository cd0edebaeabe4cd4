import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { passEachStep } from '@countersign/kernel';
import type { TreeHead } from '@countersign/merkle';
import { type AppendReply, AppendRequest, createIdentity, openIdentity } from '@countersign/protocol';
import { usePostgres } from '@countersign/testing';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import { connectWriter } from '../src/db/connection.ts';
import { PayloadKeys } from '../src/payload/payload-keys.ts';
import { Sequencer } from '../src/sequencer/sequencer.ts';
import { takeOver } from '../src/sequencer/take-over.ts';
import type { Draft } from './drafts.ts';
import { emptyDatabase, newDatabase } from './new-database.ts';

/** A sequencer on a database of its own, for each test. */
export type SequencerBench = {
  readonly databaseUrl: string;
  readonly sequencer: Sequencer;
  readonly writer: pg.Client;
  readonly loader: pg.Client;
  readonly owner: pg.Client;
  readonly payloads: PayloadKeys;
  /** What the sequencer would have ended the process for. */
  readonly faults: unknown[];
  /** Milliseconds; the sequencer's clock. */
  nowMs: number;
  /** Opens the log anew, as a restart does; `head` instead of the one found. */
  readonly reopen: (head?: TreeHead, memoryItems?: number) => Promise<void>;
  /** Moves writer and sequencer to another database. */
  readonly moveTo: (databaseUrl: string) => Promise<void>;
  /** Appends, and fails the test instead of waiting for ever when the commit fails. */
  readonly append: (request: Draft) => Promise<AppendReply>;
  readonly count: (query: string) => Promise<number>;
};

export function useSequencer(): SequencerBench {
  const postgres = usePostgres();
  const held: {
    url: string;
    writer?: pg.Client;
    loader?: pg.Client;
    payloads?: PayloadKeys;
    owner?: pg.Client;
    sequencer?: Sequencer;
    faults: unknown[];
  } = {
    url: '',
    faults: [],
  };
  const need = <T>(value: T | undefined): T => {
    if (value === undefined) throw new Error('the bench runs only inside tests');
    return value;
  };

  const bench: SequencerBench = {
    get databaseUrl() {
      return held.url;
    },
    get sequencer() {
      return need(held.sequencer);
    },
    get writer() {
      return need(held.writer);
    },
    get loader() {
      return need(held.loader);
    },
    get payloads() {
      return need(held.payloads);
    },
    get owner() {
      return need(held.owner);
    },
    get faults() {
      return held.faults;
    },
    nowMs: 1_000,
    reopen: async (head, memoryItems) => {
      const { epoch, log, revocations } = await takeOver(bench.writer);
      held.sequencer = new Sequencer({
        client: bench.writer,
        loader: bench.loader,
        tenant: 'test',
        payloads: bench.payloads,
        epoch,
        log: head ? { ...log, head } : log,
        revocations,
        ...(memoryItems === undefined ? {} : { memoryItems }),
        receiptIdentity: await openIdentity(await createIdentity('audit', 'audit')),
        now: () => bench.nowMs,
        atStep: passEachStep,
        onFault: (error) => held.faults.push(error),
      });
    },
    moveTo: async (databaseUrl) => {
      await held.writer?.end();
      await held.loader?.end();
      held.loader = await connectWriter(databaseUrl, (error) => held.faults.push(error));
      held.writer = await connectWriter(databaseUrl, (error) => held.faults.push(error));
      await bench.reopen();
    },
    append: (request) => {
      const reply = bench.sequencer.append(AppendRequest.fromPartial(request));
      const fault = expect.poll(() => held.faults.length, { timeout: 5_000, interval: 5 }).toBeGreaterThan(0);
      return Promise.race([
        reply,
        fault.then(
          () => Promise.reject(held.faults[0]),
          () => reply,
        ),
      ]);
    },
    count: async (query) => Number((await bench.owner.query<{ n: string }>(query)).rows[0]?.n),
  };

  const keyFolder = mkdtempSync(path.join(tmpdir(), 'countersign-keys-'));
  beforeAll(async () => {
    held.payloads = await PayloadKeys.open(keyFolder);
    held.url = await newDatabase(postgres().url);
    held.owner = new pg.Client({ connectionString: held.url });
    await held.owner.connect();
  });
  afterAll(async () => {
    await held.owner?.end();
    rmSync(keyFolder, { recursive: true, force: true });
  });

  beforeEach(async () => {
    await emptyDatabase(bench.owner);
    held.faults = [];
    bench.nowMs = 1_000;
    await bench.moveTo(held.url);
  });

  afterEach(async () => {
    await held.writer?.end();
    await held.loader?.end();
    delete held.writer;
    delete held.loader;
  });

  return bench;
}
