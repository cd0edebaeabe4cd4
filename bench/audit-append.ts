import { createHash } from 'node:crypto';
import { rmSync } from 'node:fs';
import path from 'node:path';
import { passEachStep } from '@countersign/kernel';
import { AppendRequest, createIdentity, openIdentity } from '@countersign/protocol';
import { type EmbeddedPostgres, startPostgres } from '@countersign/service-kit/embedded';
import pg from 'pg';
import { connectWriter, migrate } from '../apps/audit/src/db/connection.ts';
import { PayloadKeys } from '../apps/audit/src/payload/payload-keys.ts';
import { Sequencer } from '../apps/audit/src/sequencer/sequencer.ts';
import { takeOver } from '../apps/audit/src/sequencer/take-over.ts';
import { type Arm, interleave, isQuiet, median, ratio, show } from './interleave.ts';

const APPENDERS = 64;
const CHAIN_CONNECTIONS = 10;
const text = (value: string) => new TextEncoder().encode(value);

/** Runs 64 appenders, each with one append in flight, until the slice is over. */
async function closedLoop(sliceMs: number, append: (appender: number) => Promise<number>) {
  const began = performance.now();
  let done = 0;
  const appender = async (_: unknown, at: number) => {
    while (performance.now() - began < sliceMs) {
      const more = await append(at);
      done += more;
    }
  };
  await Promise.all(Array.from({ length: APPENDERS }, appender));
  return { done, elapsedMs: performance.now() - began };
}

/** Collects what waits and writes it with `flush`, one flush at a time: a group commit without anything else. */
function grouped(
  flush: (rows: readonly Uint8Array[]) => Promise<unknown>,
): (rows: readonly Uint8Array[]) => Promise<void> {
  let waiting: { rows: readonly Uint8Array[]; resolve: () => void }[] = [];
  let running = false;
  const run = async () => {
    running = true;
    await new Promise((resolve) => setImmediate(resolve));
    while (waiting.length > 0) {
      const taken = waiting;
      waiting = [];
      await flush(taken.flatMap(({ rows }) => rows));
      for (const { resolve } of taken) resolve();
    }
    running = false;
  };
  return (rows) =>
    new Promise((resolve) => {
      waiting.push({ rows, resolve });
      if (!running) void run();
    });
}

let serial = 0;
const next = () => {
  serial += 1;
  return serial;
};
const filler = 'x'.repeat(560);

/** One entry of about 1 KB, in a stream of its appender. */
function oneEntry(appender: number): AppendRequest {
  return AppendRequest.fromPartial({
    entries: [
      {
        id: `ent_bench_${next()}`,
        type: 'admin.changed',
        stream: `bench.${appender}`,
        emittedMs: BigInt(Date.now()),
        body: text(JSON.stringify({ detail: { filler }, host: 'bench', trace: '4bf92f3577b34da6a3ce929d0e0e4736' })),
      },
    ],
  });
}

/** An automatically allowed call as a gateway records it: received, decision and dispatch in one append. */
function allowedCall(): AppendRequest {
  const callId = `call_bench_${next()}`;
  const context = { session: 'ses_bench', host: 'bench', agent: { id: 'sample', on_behalf_of: 'ann' } };
  const entry = (type: string, toState: string, body: object) => ({
    id: `ent_${callId}_${type}_1`,
    type,
    stream: callId,
    emittedMs: BigInt(Date.now()),
    callId,
    toState,
    body: text(JSON.stringify({ ...context, ...body })),
  });
  const decision = { effect: 'allow', decided_by: 'rule', rules: ['r1'], policy_digest: 'a'.repeat(64), reason: '' };
  return AppendRequest.fromPartial({
    call: {
      callId,
      agent: 'sample',
      sessionId: 'ses_bench',
      host: 'bench',
      tool: 'bash',
      callDigest: new Uint8Array(32),
      sealedPayload: new Uint8Array(300),
      canonicalEnvelope: new Uint8Array(300),
    },
    entries: [
      entry('call.received', 'received', { tool: { name: 'bash', action: 'exec', args_commitment: 'b'.repeat(64) } }),
      entry('decision', 'approved', { decision }),
      entry('dispatch.sent', 'dispatched', { detail: { order: callId } }),
    ],
    decidedBy: 'rule',
    decidedByName: 'r1',
    orderId: callId,
    orderHost: 'bench',
    orderExpiresAtMs: 9n,
    view: new Uint8Array(300),
  });
}

async function database(postgres: EmbeddedPostgres, name: string): Promise<string> {
  const admin = new pg.Client({ connectionString: postgres.url });
  await admin.connect();
  await admin.query(`create database ${name}`);
  await admin.end();
  return postgres.url.replace(/\/postgres$/, `/${name}`);
}

const ended = (error: unknown): never => {
  process.stderr.write(`${String(error)}\n`);
  process.exit(2);
};

async function openSequencer(url: string): Promise<{ sequencer: Sequencer; client: pg.Client; loader: pg.Client }> {
  await migrate(url);
  const client = await connectWriter(url, ended);
  const receiptIdentity = await openIdentity(await createIdentity('audit', 'audit'));
  const loader = await connectWriter(url, ended);
  const sequencer = new Sequencer({
    client,
    loader,
    tenant: 'bench',
    payloads: await PayloadKeys.open(path.join(folder, 'payload-keys')),
    ...(await takeOver(client)),
    receiptIdentity,
    now: Date.now,
    atStep: passEachStep,
    onFault: ended,
  });
  return { sequencer, client, loader };
}

/** The popular way: an advisory lock, read the head, hash, insert, commit. */
function chainArm(pool: pg.Pool, leaf: Buffer): (appender: number) => Promise<number> {
  return async () => {
    const client = await pool.connect();
    try {
      await client.query('begin');
      await client.query('select pg_advisory_xact_lock(1)');
      const head = await client.query<{ hash: Buffer }>('select hash from chain order by id desc limit 1');
      const hash = createHash('sha256')
        .update(head.rows[0]?.hash ?? Buffer.alloc(32))
        .update(leaf)
        .digest();
      await client.query('insert into chain (leaf, hash) values ($1, $2)', [leaf, hash]);
      await client.query('commit');
      return 1;
    } finally {
      client.release();
    }
  };
}

/** Write-ahead log flushes of a connection's backend. */
async function flushes(client: pg.Client): Promise<number> {
  await client.query('select pg_stat_force_next_flush()');
  const { rows } = await client.query<{ n: string }>(
    "select coalesce(sum(fsyncs), 0) n from pg_stat_get_backend_io(pg_backend_pid()) where object = 'wal'",
  );
  return Number(rows[0]?.n);
}

async function leafBytes(url: string): Promise<number> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ n: string }>(
    'select round(avg(octet_length(leaf))) n from audit.entry where log_index > 0',
  );
  await client.end();
  return Number(rows[0]?.n);
}

async function bareInsert(
  url: string,
): Promise<{ insert: (rows: readonly Uint8Array[]) => Promise<void>; client: pg.Client }> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', ended);
  await client.connect();
  await client.query('create table bare (log_index bigint primary key, leaf bytea not null)');
  let index = 0;
  const insert = grouped(async (rows) => {
    const indexes = rows.map(() => (index += 1));
    const values = [indexes, rows.map((row) => Buffer.from(row))];
    await client.query({
      name: 'bare',
      text: 'insert into bare select * from unnest($1::bigint[], $2::bytea[])',
      values,
    });
  });
  return { insert, client };
}

async function measure(postgres: EmbeddedPostgres, rounds: number, sliceMs: number): Promise<void> {
  const one = await openSequencer(await database(postgres, 'bench_one'));
  const call = await openSequencer(await database(postgres, 'bench_call'));
  const bare = await bareInsert(await database(postgres, 'bench_bare'));
  const pool = new pg.Pool({ connectionString: await database(postgres, 'bench_chain'), max: CHAIN_CONNECTIONS });
  await pool.query('create table chain (id bigserial primary key, leaf bytea not null, hash bytea not null)');
  const append = (sequencer: Sequencer, request: AppendRequest) =>
    sequencer.append(request).then((reply) => (reply.refusal ? ended(reply.refusal.message) : reply.entries.length));
  const warm = (run: (appender: number) => Promise<number>) => closedLoop(1_000, run);
  const appendOne = (at: number) => append(one.sequencer, oneEntry(at));
  const appendCall = () => append(call.sequencer, allowedCall());
  await warm(appendOne);
  await warm(appendCall);
  const size = await leafBytes(postgres.url.replace(/\/postgres$/, '/bench_one'));
  const callSize = await leafBytes(postgres.url.replace(/\/postgres$/, '/bench_call'));
  const leaf = Buffer.alloc(size, 7);
  const callLeaf = Buffer.alloc(callSize, 7);
  const arm = (name: string, run: (appender: number) => Promise<number>): Arm => ({
    name,
    run: (ms) => closedLoop(ms, run),
  });
  const arms = [
    arm('log', appendOne),
    arm('log again', appendOne),
    arm('bare', () => bare.insert([leaf]).then(() => 1)),
    arm('chain', chainArm(pool, leaf)),
    arm('calls', appendCall),
    arm('bare calls', () => bare.insert([callLeaf, callLeaf, callLeaf]).then(() => 3)),
  ];
  for (const { run } of arms) await run(500);
  const [commitsBefore, flushesBefore] = [one.sequencer.commits, await flushes(one.client)];
  const rates = await interleave(arms, rounds, sliceMs);
  const batches = one.sequencer.commits - commitsBefore;
  const perBatch = ((await flushes(one.client)) - flushesBefore) / batches;
  const same = ratio(rates, 'log again', 'log');
  const line = (label: string, value: string) => process.stdout.write(`${label.padEnd(44)} ${value}\n`);
  for (const [name, values] of rates) line(`${name}, entries a second (median)`, median(values).toFixed(0));
  line('entry, bytes', `${size}; of a call ${callSize}`);
  line('write-ahead log flushes a batch', perBatch.toFixed(3));
  line('log / log (A/A)', `${show(same)}${isQuiet(same) ? '' : '  TOO NOISY: no verdict'}`);
  line('log / advisory-lock chain (goal 8)', show(ratio(rates, 'log', 'chain')));
  line('log / bare insert (floor 0.3, goal 0.5)', show(ratio(rates, 'log', 'bare')));
  line('calls / bare insert of the same leaves', show(ratio(rates, 'calls', 'bare calls')));
  await Promise.all([
    one.client.end(),
    one.loader.end(),
    call.client.end(),
    call.loader.end(),
    bare.client.end(),
    pool.end(),
  ]);
}

const [folder = '/var/lib/countersign-bench', rounds = '25', sliceMs = '400'] = process.argv.slice(2);
const postgres = await startPostgres({ dataDir: folder });
try {
  await measure(postgres, Number(rounds), Number(sliceMs));
} finally {
  await postgres.stop();
  rmSync(folder, { recursive: true, force: true });
}
