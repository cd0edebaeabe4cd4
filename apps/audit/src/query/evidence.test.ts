import { createHash } from 'node:crypto';
import {
  cosignature,
  cosignedMessage,
  formatSignedNote,
  leafHash,
  parseSignedNote,
  toBase64,
  verifyConsistency,
  verifyInclusion,
  witnessKeyId,
} from '@countersign/merkle';
import {
  type AddCosignaturesReply,
  type AskReply,
  AskRequest,
  type CheckDatabaseReport,
  createIdentity,
  type DatabaseProblem,
  EvidenceClient,
  type ListCheckpointsReply,
  openIdentity,
  ProofReply,
  ProofRequest,
  type ProveCallReply,
  type ProveConsistencyReply,
  type ProveInclusionReply,
  rawPublicKey,
} from '@countersign/protocol';
import { connectNats, grpcClient } from '@countersign/service-kit';
import type { ServiceError } from '@grpc/grpc-js';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type AuditProcess, useAudit } from '../../test/use-audit.ts';

const suite = useAudit();
const sha256 = (data: Uint8Array) => new Uint8Array(createHash('sha256').update(data).digest());
const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
let audit: AuditProcess;
let evidence: EvidenceClient;
let witness: { key: string; cosign: (note: string) => string };

beforeEach(async () => {
  const identity = await openIdentity(suite.identities.root);
  const publicKey = rawPublicKey(identity.publicKey);
  const keyId = witnessKeyId(sha256, 'witness.example', publicKey);
  witness = {
    key: `witness.example+${Buffer.from(keyId).toString('hex')}+${toBase64(Uint8Array.of(4, ...publicKey))}`,
    cosign: (note) => {
      const parsed = parseSignedNote(note);
      if (!parsed.ok) throw new Error('no note');
      const { text, signatures } = parsed.value;
      const signature = identity.sign(cosignedMessage(text, 1_700_000_000));
      const line = cosignature({ name: 'witness.example', keyId, seconds: 1_700_000_000, signature });
      return formatSignedNote(text, [...signatures, line]);
    },
  };
  audit = await suite.start({ witnesses: [witness.key] });
  evidence = grpcClient(EvidenceClient, `127.0.0.1:${audit.port}`);
});
afterEach(() => evidence.close());

const entry = (callId: string, type: string, toState: string, body: object, attempt = '1') => ({
  id: `ent_${callId || 'log'}_${type}_${attempt}`,
  type,
  stream: callId || 'log',
  emittedMs: BigInt(Date.now()),
  callId,
  body: json(body),
  toState,
});

type Facts = { tool?: string; action?: string; principal?: string; text?: string };

/** A call that waits for a person. */
const submit = (callId: string, facts: Facts = {}) =>
  audit.append({
    call: {
      ...{ callId, agent: 'sample', sessionId: 'ses_1', host: 'local', sealedPayload: json('sealed') },
      tool: facts.tool ?? 'bash',
      principal: facts.principal ?? 'ann',
      callDigest: Uint8Array.of(0xaa),
    },
    view: json({ shown: callId }),
    entries: [
      entry(callId, 'call.received', 'received', {
        agent: { id: 'sample', on_behalf_of: facts.principal ?? 'ann' },
        tool: { name: facts.tool ?? 'bash', action: facts.action ?? 'run', args_commitment: 'aa' },
        host: 'local',
        session: 'ses_1',
        ...(facts.text === undefined ? {} : { detail: { text: facts.text } }),
      }),
      entry(callId, 'approval.requested', 'pending', {}),
    ],
  });
const answer = (callId: string, effect: 'allow' | 'deny', subject = 'bob', policy = 'p1') =>
  audit.append({
    entries: [
      entry(callId, 'approval.answered', '', { approver: { subject }, detail: { answer: effect } }),
      entry(callId, 'decision', effect === 'allow' ? 'approved' : 'denied', {
        decision: { effect, decided_by: 'human', policy_digest: policy },
        approver: { subject },
      }),
      ...(effect === 'deny' ? [entry(callId, 'call.closed', '', { detail: { state: 'denied' } })] : []),
    ],
    decidedBy: 'human',
    decidedByName: subject,
  });
const other = (type: string, body: object, attempt = '1') =>
  audit.append({ entries: [entry('', type, '', body, attempt)] });

function answered<T>(start: (done: (error: ServiceError | null, value: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => start((error, value) => (error ? reject(error) : resolve(value))));
}

async function ask(
  question: string,
  filters: Record<string, string> = {},
  page: { limit?: number; pageToken?: string } = {},
) {
  const reply = await answered<AskReply>((done) =>
    evidence.ask(AskRequest.fromPartial({ question, filters, ...page }), done),
  );
  const rows = JSON.parse(Buffer.from(reply.rows).toString()) as unknown[][];
  const summary = reply.summary.length === 0 ? undefined : JSON.parse(Buffer.from(reply.summary).toString());
  return {
    rows: rows.map((row) => Object.fromEntries(row.map((value, at) => [reply.columns[at], value]))),
    summary,
    next: reply.nextPageToken,
    entries: Number(reply.entries),
  };
}

async function check(): Promise<{ problems: DatabaseProblem[]; finished: boolean; entries: number }> {
  const problems: DatabaseProblem[] = [];
  let [finished, entries] = [false, 0];
  for await (const report of evidence.checkDatabase({}) as AsyncIterable<CheckDatabaseReport>) {
    problems.push(...report.problems);
    finished = report.finished;
    entries = Number(report.entries);
  }
  return { problems, finished, entries };
}

const size = async () => (await ask('entries')).entries;

describe('proofs', () => {
  test('of entries, sizes and calls, also over tile borders, verify against the signed root', async () => {
    await Promise.all(Array.from({ length: 300 }, (_, at) => submit(`call_${at}`)));
    const total = await size();
    expect(total).toBe(601);
    const indexes = [0, 1, 255, 256, 511, 512, 600];
    const reply = await answered<ProveInclusionReply>((done) =>
      evidence.proveInclusion({ logIndexes: indexes.map(BigInt) }, done),
    );
    const root = Buffer.from(reply.checkpoint.split('\n')[2] ?? '', 'base64');
    const results = reply.entries.map(({ leaf, logIndex, proof }) =>
      verifyInclusion(sha256, { leaf: leafHash(sha256, leaf), index: Number(logIndex), size: total, proof, root }),
    );
    expect(results).toEqual(indexes.map(() => true));
    for (const oldSize of [1, 255, 256, 257, 600, 601]) {
      const old = await answered<ProveConsistencyReply>((done) =>
        evidence.proveConsistency({ oldSize: 1n, newSize: BigInt(oldSize) }, done),
      );
      const proof = await answered<ProveConsistencyReply>((done) =>
        evidence.proveConsistency({ oldSize: BigInt(oldSize), newSize: 0n }, done),
      );
      const claim = { oldSize, newSize: total, oldRoot: old.newRoot, newRoot: root, proof: proof.proof };
      expect([oldSize, verifyConsistency(sha256, claim)]).toEqual([oldSize, true]);
    }
    // What is not there is refused.
    await expect(answered((done) => evidence.proveInclusion({ logIndexes: [1_000n] }, done))).rejects.toMatchObject({
      code: 11,
    });
    await expect(
      answered((done) => evidence.proveConsistency({ oldSize: 0n, newSize: 0n }, done)),
    ).rejects.toMatchObject({ code: 11 });
    await expect(answered((done) => evidence.proveCall({ callId: 'call_zz' }, done))).rejects.toMatchObject({
      code: 5,
    });
    // A call has all of its entries and no other.
    await submit('call_a');
    await answer('call_a', 'deny');
    const ofCall = await answered<ProveCallReply>((done) => evidence.proveCall({ callId: 'call_a' }, done));
    const types = ofCall.entries.map(({ leaf }) => (JSON.parse(Buffer.from(leaf).toString()) as { type: string }).type);
    expect(types).toEqual(['call.received', 'approval.requested', 'approval.answered', 'decision', 'call.closed']);
    expect(ofCall.call?.callId).toBe('call_a');
  });
});

describe('questions', () => {
  test('are answered over everything that was recorded before them', async () => {
    await submit('call_a', { principal: 'bob' });
    await answer('call_a', 'allow');
    await submit('call_b');
    await answer('call_b', 'deny', 'bob', 'p2');
    await submit('call_c');
    await answer('call_c', 'allow', 'carl', 'p2');
    await submit('call_d');
    await other('grant.created', { detail: { grant: 'g_1' } });
    expect((await ask('self-approved')).rows).toMatchObject([{ call_id: 'call_a', approver: 'bob', principal: 'bob' }]);
    expect((await ask('denied-then-allowed')).rows).toMatchObject([
      { call_id: 'call_c', denied_index: expect.any(Number) },
    ]);
    expect((await ask('open-calls')).rows.map((row) => row.call_id)).toEqual(['call_a', 'call_c', 'call_d']);
    expect((await ask('refused')).rows.map((row) => row.call_id)).toEqual(['call_b']);
    const approvals = await ask('approvals', { approver: 'bob' });
    expect(approvals.rows.map((row) => row.call_id)).toEqual(['call_b', 'call_a']);
    expect(approvals.summary).toEqual({ answers: 2, median_ms: expect.any(Number), share_under_3s: 1 });
    expect((await ask('decisions', { policy: 'p2' })).rows.map((row) => row.call_id)).toEqual(['call_c', 'call_b']);
    expect((await ask('policy-compare', { policy: 'p1', with: 'p2' })).rows).toEqual([
      { tool: 'bash', action: 'run', effect: 'allow', decided_by: 'human', calls: 1, calls_with: 1 },
      { tool: 'bash', action: 'run', effect: 'deny', decided_by: 'human', calls: 0, calls_with: 1 },
    ]);
    expect((await ask('grants')).rows).toMatchObject([{ uses: 0 }]);
    expect((await ask('call', { call: 'call_b' })).rows.map((row) => row.type)).toEqual([
      'call.received',
      'approval.requested',
      'approval.answered',
      'decision',
      'call.closed',
    ]);
    const { rows } = await ask('population');
    expect(rows).toMatchObject([{ entries: await size(), first_index: 0, missing: 0 }]);
    for (const name of ['argument-mismatch', 'interrupted', 'payload-reads', 'silent-hosts', 'clock-offsets'])
      expect([name, (await ask(name)).rows]).toEqual([name, []]);
  });

  test('tell what went wrong, and who did and read what', async () => {
    const run = (callId: string, executed: string, end: 'exec.finished' | 'exec.interrupted') => [
      entry(callId, 'exec.started', 'running', { host: 'local' }),
      entry(callId, end, end === 'exec.finished' ? 'done' : 'interrupted', { host: 'local', detail: { executed } }),
      entry(callId, 'call.closed', '', { detail: { state: end === 'exec.finished' ? 'done' : 'interrupted' } }),
    ];
    for (const [callId, executed, end] of [
      ['call_right', 'aa', 'exec.finished'],
      ['call_other', 'bb', 'exec.finished'],
      ['call_cut', '', 'exec.interrupted'],
    ] as const) {
      await submit(callId);
      await answer(callId, 'allow');
      const order = { orderId: `ord_${callId}`, orderHost: 'local', orderExpiresAtMs: BigInt(Date.now() + 60_000) };
      await audit.append({ ...order, entries: [entry(callId, 'dispatch.sent', 'dispatched', {})] });
      expect((await audit.append({ entries: run(callId, executed, end) })).refusal).toBeUndefined();
    }
    await audit.append({ entries: [entry('call_right', 'audit.read', '', { detail: { reader: 'eve' } })] });
    await other('admin.changed', { detail: { what: 'token.made', by: 'ann' } });
    await other('admin.changed', { detail: { what: 'role.given', by: 'carl' } }, '2');
    const late = { ...entry('', 'admin.changed', '', { detail: { what: 'late', by: 'dan' } }, '3'), emittedMs: 1n };
    await audit.append({ entries: [late] });
    const calls = async (question: string, filters = {}) =>
      (await ask(question, filters)).rows.map((row) => row.call_id);
    expect(await calls('argument-mismatch')).toEqual(['call_other']);
    expect(await calls('interrupted')).toEqual(['call_cut']);
    expect(await calls('open-calls')).toEqual([]);
    expect((await ask('payload-reads')).rows).toMatchObject([{ call_id: 'call_right', subject: 'eve' }]);
    expect((await ask('payload-reads', { subject: 'ann' })).rows).toEqual([]);
    expect((await ask('clock-offsets')).rows).toMatchObject([{ type: 'admin.changed', offset_ms: expect.any(Number) }]);
    const acts = (await ask('admin-acts')).rows.map(({ what, subject }) => [what, subject]);
    expect(acts).toEqual([
      ['late', 'dan'],
      ['role.given', 'carl'],
      ['token.made', 'ann'],
    ]);
    expect((await ask('admin-acts', { what: 'token.made' })).rows).toMatchObject([{ subject: 'ann' }]);
    const silent = await ask('silent-hosts', { minutes: '0' });
    expect(silent.rows).toMatchObject([{ host: 'local', open_calls: 0 }]);
    expect((await check()).problems).toEqual([expect.objectContaining({ code: 'executed_differs' })]);
  });

  test('come in pages that neither repeat nor leave out a row', async () => {
    await Promise.all(Array.from({ length: 25 }, (_, at) => submit(`call_${at}`)));
    const seen: unknown[] = [];
    for (let pageToken = '', pages = 0; pages < 20; pages += 1) {
      const page = await ask('entries', { type: 'call.received' }, { limit: 7, pageToken });
      seen.push(...page.rows.map((row) => row.call_id));
      pageToken = page.next;
      if (pageToken === '') break;
    }
    expect(new Set(seen).size).toBe(25);
    expect(seen.length).toBe(25);
  });

  test('that are none say what is wrong, and hostile text is data', async () => {
    const wrong: [string, Record<string, string>, RegExp][] = [
      ['everything', {}, /there are: entries/],
      ['population', { agent: 'x' }, /has no filter `agent`/],
      ['decisions', {}, /needs the filter `policy`/],
      ['entries', { since: 'yesterday' }, /not a valid time/],
      ['entries', { agent: 'a\0' }, /not a valid text/],
      ['entries', { constructor: 'x' }, /has no filter/],
    ];
    for (const [question, filters, message] of wrong)
      await expect(ask(question, filters)).rejects.toMatchObject({ code: 3, details: expect.stringMatching(message) });
    const text = `'; drop table audit.fact; -- \u2028 \n \0 \u{1f600}`;
    await submit('call_a', { principal: text, tool: text, action: text, text });
    expect((await ask('call', { call: 'call_a' })).rows[0]).toMatchObject({ principal: text.replace('\0', '\ufffd') });
    expect((await ask('entries', { principal: text.replaceAll('\0', '\ufffd') })).rows.length).toBe(2);
    expect((await check()).problems).toEqual([]);
  });
});

const TAMPERED = ['entry', 'entry_key', 'checkpoint', 'head', 'node', 'fact', 'story', 'call', 'payload', 'document'];
const EDITS: [string, string, string, number | null][] = [
  ['a column', "update audit.entry set type = 'exec.started' where log_index = 3", 'column', 3],
  ['a time column', 'update audit.entry set recorded_ms = recorded_ms + 1 where log_index = 4', 'column', 4],
  ['an id', "update audit.entry_key set entry_id = 'x' where log_index = 2", 'column', 2],
  [
    'a leaf hash',
    "update audit.entry_key set leaf_hash = decode(repeat('00', 32), 'hex') where log_index = 5",
    'changed',
    5,
  ],
  [
    'a leaf',
    "update audit.entry set leaf = convert_to(replace(convert_from(leaf, 'UTF8'), 'allow', 'deny '), 'UTF8') where type = 'decision'",
    'changed',
    4,
  ],
  ['a query column', "update audit.fact set approver = 'mallory' where type = 'approval.answered'", 'fact', 3],
  ["a call's row for questions", "update audit.story set principal = 'mallory'", 'story', 1],
  ["a call's state", "update audit.call set state = 'done' where call_id = 'call_b'", 'call_state', 9],
  ["an open call's state", "update audit.call set state = 'denied' where call_id = 'call_a'", 'call_state', 4],
  [
    'the payloads of two calls swapped',
    'update audit.payload p set sealed_payload = o.sealed_payload from audit.payload o where o.call_id <> p.call_id',
    'payload',
    1,
  ],
  ["a payload's key", "update audit.payload set key_id = repeat('0', 40)", 'payload', 1],
  ['a removed payload', "delete from audit.payload where call_id = 'call_b'", 'payload', 5],
  [
    'the records of two calls swapped',
    'update audit.call c set record = o.record from audit.call o where o.call_id <> c.call_id',
    'call_record',
    1,
  ],
  [
    'the decision that a receipt binds',
    `update audit.call set decision_entry = jsonb_set(decision_entry, '{index}', '5') where call_id = 'call_a'`,
    'call_record',
    4,
  ],
  ['a removed call', "delete from audit.call where call_id = 'call_a'", 'call_record', 1],
  [
    'an invented call',
    "insert into audit.call select 'call_z', agent, session_id, state, received_ms, record, decision_entry from audit.call limit 1",
    'stray',
    null,
  ],
  [
    'a document',
    `update audit.document set value = jsonb_set(value, '{roles}', '["admin"]') where key = 'ann'`,
    'document',
    10,
  ],
  [
    'an older version of a document',
    "update audit.document set version = version - 1 where key = 'ann'",
    'document',
    10,
  ],
  [
    'an invented document',
    `insert into audit.document values ('person', 'mallory', 1, '{"roles": ["admin"]}')`,
    'document',
    null,
  ],
  ['a removed document', "delete from audit.document where key = 'ann'", 'document', 10],
  [
    'entries reordered within a batch',
    'update audit.entry e set leaf = o.leaf from audit.entry o where (e.log_index, o.log_index) in ((2, 3), (3, 2))',
    'changed',
    2,
  ],
  [
    'a leaf with its hash, as if it had always been so',
    "with t as (update audit.entry set leaf = convert_to(replace(convert_from(leaf, 'UTF8'), 'bob', 'eve'), 'UTF8') where log_index = 3 returning leaf) update audit.entry_key set leaf_hash = sha256('\\x00'::bytea || t.leaf) from t where log_index = 3",
    'unchained',
    3,
  ],
  ['the time of the head', 'update audit.head set recorded_ms = 1', 'head', null],
  ['a removed entry', 'delete from audit.entry where log_index = 6', 'index', 6],
  ['a cut tail', 'delete from audit.entry where log_index >= 9', 'size', 9],
  ['a removed key row', 'delete from audit.entry_key where log_index = 6', 'key_missing', 6],
  ['the head', 'update audit.head set next_index = next_index + 1', 'size', 11],
  [
    'the stack of the head',
    "update audit.head set stack = array_fill(decode(repeat('00', 32), 'hex'), array[array_length(stack, 1)])",
    'head',
    null,
  ],
  [
    'a stored checkpoint',
    "update audit.checkpoint set note = replace(note, E'\\n1\\n', E'\\n2\\n') where size = 1",
    'checkpoint',
    0,
  ],
];

describe('the check of the database', () => {
  test('finds nothing in what was written, and each edit of a superuser with the triggers off, at its place', async () => {
    await submit('call_a');
    await answer('call_a', 'allow');
    await submit('call_b');
    await answer('call_b', 'deny');
    await audit.append({
      entries: [entry('', 'admin.changed', '', {})],
      documents: [{ kind: 'person', key: 'ann', value: json({ roles: ['viewer'], n: 1.5 }), expectedVersion: 0n }],
    });
    expect(await size()).toBe(11);
    expect(await check()).toEqual({ problems: [], finished: true, entries: 11 });
    const superuser = new pg.Client({ connectionString: suite.databaseUrl });
    await superuser.connect();
    for (const table of ['entry', 'entry_p0', 'entry_key', 'checkpoint', 'node'])
      await superuser.query(`alter table audit.${table} disable trigger all`);
    for (const table of TAMPERED) await superuser.query(`create table kept_${table} as select * from audit.${table}`);
    for (const [name, statement, code, index] of EDITS) {
      const { rowCount } = await superuser.query(statement);
      expect([name, rowCount]).not.toEqual([name, 0]);
      const found = (await check()).problems.map((problem) => [
        problem.code,
        problem.logIndex === undefined ? null : Number(problem.logIndex),
      ]);
      expect([name, found]).toEqual([name, expect.arrayContaining([[code, index]])]);
      for (const table of TAMPERED)
        await superuser.query(`delete from audit.${table}; insert into audit.${table} select * from kept_${table}`);
    }
    expect((await check()).problems).toEqual([]);
    await superuser.end();
  });
});

test('a cosignature of a known witness is kept with its checkpoint, and no other', async () => {
  await submit('call_a');
  const list = () =>
    answered<ListCheckpointsReply>((done) => evidence.listCheckpoints({ limit: 5, beforeSize: 0n }, done));
  await expect.poll(async () => Number((await list()).checkpoints[0]?.size), { timeout: 15_000 }).toBe(3);
  const note = (await list()).checkpoints[0]?.note ?? '';
  const add = (text: string) =>
    answered<AddCosignaturesReply>((done) => evidence.addCosignatures({ note: text }, done));
  await expect(add(note)).rejects.toMatchObject({ code: 3 });
  const cosigned = witness.cosign(note);
  await expect(add(cosigned.replace('\n3\n', '\n4\n'))).rejects.toMatchObject({ code: 3 });
  const forged = cosigned.replace(
    /(witness\.example .{20})(.)/,
    (_, start, sign) => `${start}${sign === 'A' ? 'B' : 'A'}`,
  );
  await expect(add(forged)).rejects.toMatchObject({ code: 3 });
  expect((await add(cosigned)).witnesses).toEqual(['witness.example']);
  expect((await list()).checkpoints[0]?.note).toBe(cosigned);
});

test('a host gets proofs on its own subject, and its cosignature is kept once it is enrolled', async () => {
  const host = await openIdentity(await createIdentity('host', 'h1'));
  const nats = await connectNats({
    url: suite.nats.url,
    seed: suite.identities.audit.seed,
    name: 'h1',
    inboxPrefix: '_INBOX_host_h1',
  });
  const ask = async (request: Parameters<typeof ProofRequest.fromPartial>[0]) => {
    const bytes = ProofRequest.encode(ProofRequest.fromPartial(request)).finish();
    return ProofReply.decode((await nats.request('cs.v1.proof.h1', bytes, { timeout: 15_000 })).data);
  };
  const rootOf = (note: string) => Buffer.from(note.split('\n')[2] ?? '', 'base64');
  const sizeOf = (note: string) => Number(note.split('\n')[1]);
  await submit('call_a');
  await expect.poll(async () => sizeOf((await ask({})).checkpoint), { timeout: 15_000 }).toBe(3);
  const first = await ask({ oldSize: 3n });
  await submit('call_b');
  await expect.poll(async () => sizeOf((await ask({})).checkpoint), { timeout: 15_000 }).toBe(5);
  const reply = await ask({ oldSize: 3n, logIndexes: [1n, 4n, 900n] });
  const root = rootOf(reply.checkpoint);
  const claim = { oldSize: 3, newSize: 5, oldRoot: rootOf(first.checkpoint), newRoot: root, proof: reply.consistency };
  expect(verifyConsistency(sha256, claim)).toBe(true);
  const { leaves } = await audit.exportLog();
  const included = reply.paths.map(({ logIndex, path: proof }) => {
    const index = Number(logIndex);
    return verifyInclusion(sha256, { leaf: leafHash(sha256, leaves[index] ?? root), index, size: 5, proof, root });
  });
  expect(included).toEqual([true, true]);
  const name = 'host/h1';
  const parsed = parseSignedNote(reply.checkpoint);
  if (!parsed.ok) throw new Error('no note');
  const { text, signatures } = parsed.value;
  const keyId = witnessKeyId(sha256, name, rawPublicKey(host.publicKey));
  const line = cosignature({
    name,
    keyId,
    seconds: 1_700_000_000,
    signature: host.sign(cosignedMessage(text, 1_700_000_000)),
  });
  const cosigned = formatSignedNote(text, [...signatures, line]);
  const list = async () => {
    const found = await answered<ListCheckpointsReply>((done) =>
      evidence.listCheckpoints({ limit: 5, beforeSize: 0n }, done),
    );
    return found.checkpoints.map(({ note }) => note);
  };
  await ask({ oldSize: 5n, cosigned });
  expect((await list()).join('')).not.toContain(name);
  await audit.append({
    entries: [entry('', 'member.joined', '', {})],
    documents: [{ kind: 'member', key: 'host:h1', value: json({ sign_key: host.publicKey }), expectedVersion: 0n }],
  });
  await ask({ oldSize: 5n, cosigned });
  expect(await list()).toContain(cosigned);
  await nats.close();
});
