import { createHash, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type AuditEntry,
  canonicalEntryBytes,
  formatCheckpoint,
  formatSignedNote,
  leafHash,
  noteKeyId,
  parseEntry,
  rootOfLeaves,
  verifyBundle,
} from './index.ts';

const NAME = 'log.countersign.example';
const sha256 = (data: Uint8Array) => new Uint8Array(createHash('sha256').update(data).digest());
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const rawKey = (key: KeyObject) =>
  new Uint8Array(createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(12));
const spki = Buffer.from('302a300506032b6570032100', 'hex');
const verifyEd25519 = (key: Uint8Array, message: Uint8Array, signature: Uint8Array) =>
  verify(null, message, createPublicKey({ key: Buffer.concat([spki, key]), format: 'der', type: 'spki' }), signature);
const logKey = generateKeyPairSync('ed25519').privateKey;
const otherKey = generateKeyPairSync('ed25519').privateKey;

type Draft = { stream: string; type: AuditEntry['type']; call?: string } & Partial<
  Pick<AuditEntry, 'decision' | 'approver' | 'detail'>
>;

/** Numbers, chains and encodes drafts as the sequencer does. */
function record(drafts: readonly Draft[]): Uint8Array[] {
  const streams = new Map<string, { seq: number; leaf: string }>();
  return drafts.map((draft, index) => {
    const last = streams.get(draft.stream);
    const entry: AuditEntry = {
      version: 1,
      index,
      id: `ent_${index}_${draft.type}_${draft.call ?? ''}`,
      tenant: 'org',
      stream: draft.stream,
      stream_seq: last ? last.seq + 1 : 0,
      prev: last?.leaf ?? null,
      type: draft.type,
      emitted_ms: 1000 + index,
      recorded_ms: 1000 + index,
      ...(draft.call === undefined ? {} : { call: draft.call }),
      ...(draft.decision === undefined ? {} : { decision: draft.decision }),
      ...(draft.approver === undefined ? {} : { approver: draft.approver }),
      ...(draft.detail === undefined ? {} : { detail: draft.detail }),
    };
    const bytes = canonicalEntryBytes(entry);
    if (!bytes.ok) throw new Error(bytes.error.message);
    streams.set(draft.stream, { seq: entry.stream_seq, leaf: hex(leafHash(sha256, bytes.value)) });
    return bytes.value;
  });
}

function checkpointOf(leaves: readonly Uint8Array[], key: KeyObject = logKey): string {
  const root = rootOfLeaves(
    sha256,
    leaves.map((leaf) => leafHash(sha256, leaf)),
  );
  const text = formatCheckpoint({ origin: NAME, size: leaves.length, root });
  const signature = new Uint8Array(sign(null, Buffer.from(text), key));
  return formatSignedNote(text, [{ name: NAME, keyId: noteKeyId(sha256, NAME, rawKey(key)), signature }]);
}

const story = (call: string): Draft[] => [
  { stream: call, call, type: 'call.received' },
  { stream: call, call, type: 'decision', decision: { effect: 'allow', decided_by: 'mode' } },
  { stream: call, call, type: 'dispatch.sent' },
  { stream: call, call, type: 'exec.started' },
  { stream: call, call, type: 'exec.finished' },
  { stream: call, call, type: 'call.closed' },
];
const drafts: Draft[] = [{ stream: 'audit', type: 'key.added' }, ...story('call_a'), ...story('call_b')];
const clean = record(drafts);

const check = (leaves: readonly Uint8Array[], checkpoint = checkpointOf(leaves), olderCheckpoint?: string) =>
  verifyBundle({
    leaves,
    checkpoint,
    ...(olderCheckpoint === undefined ? {} : { olderCheckpoint }),
    name: NAME,
    publicKey: rawKey(logKey),
    sha256,
    verifyEd25519,
  });
const found = (...args: Parameters<typeof check>) =>
  check(...args).problems.map((problem) => `${problem.code}@${problem.index}`);
const edit = (leaf: Uint8Array, change: (text: string) => string) =>
  Buffer.from(change(Buffer.from(leaf).toString('utf8')));

test('an untouched log is clean, also against a checkpoint kept from earlier', () => {
  expect(check(clean, checkpointOf(clean), checkpointOf(clean.slice(0, 5)))).toMatchObject({
    problems: [],
    entries: 13,
    openCalls: [],
  });
});

test('a call without its end is open, which is not a problem', () => {
  const leaves = record(drafts.slice(0, -1));
  expect(check(leaves)).toMatchObject({ problems: [], entries: 12, openCalls: ['call_b'] });
});

describe('tampering is found', () => {
  const original = checkpointOf(clean);
  const effectChanged = clean.with(
    2,
    edit(clean[2] as Uint8Array, (text) => text.replace('"allow"', '"deny"')),
  );
  const recomputed = record(drafts.map((draft, at) => (at === 2 ? { ...draft, decision: { effect: 'deny' } } : draft)));
  const streamRemoved = record(drafts.filter((draft) => draft.stream !== 'call_a'));
  const streamReplaced = record([
    ...drafts.filter((draft) => draft.stream !== 'call_a'),
    ...Array.from({ length: 6 }, (): Draft => ({ stream: 'audit', type: 'admin.changed' })),
  ]);
  const forked = record([...drafts.slice(0, 7), ...story('call_c')]);
  const lastChanged = clean.with(
    -1,
    edit(clean.at(-1) as Uint8Array, (text) => text.replace('"emitted_ms":1012', '"emitted_ms":1011')),
  );
  const swapped = clean.with(3, clean[4] as Uint8Array).with(4, clean[3] as Uint8Array);

  test.each([
    [
      'one effect changed',
      effectChanged,
      original,
      undefined,
      ['unchained@2', 'prev@3', 'effect_without_decision@3', 'root@0'],
    ],
    ['an entry removed', clean.toSpliced(4, 1), original, undefined, ['index@4', 'stream_seq@4', 'prev@4']],
    [
      'an entry inserted',
      clean.toSpliced(4, 0, clean[4] as Uint8Array),
      original,
      undefined,
      ['index@5', 'duplicate_id@5'],
    ],
    ['two entries swapped', swapped, original, undefined, ['index@3', 'stream_seq@3', 'prev@3']],
    ['a cut tail', clean.slice(0, -3), original, undefined, ['size@10']],
    [
      'a cut tail, signed again by another key',
      clean.slice(0, -3),
      checkpointOf(clean.slice(0, -3), otherKey),
      undefined,
      ['unsigned@null'],
    ],
    ['a stream removed and all recomputed, under the old checkpoint', streamRemoved, original, undefined, ['size@7']],
    [
      'a stream removed, indexes rewritten and the size kept by entries of no call',
      streamReplaced,
      original,
      undefined,
      ['root@0'],
    ],
    [
      'one entry forged between two others, indexes and chains rewritten',
      record(drafts.toSpliced(4, 0, { stream: 'audit', type: 'admin.changed' })),
      original,
      undefined,
      ['size@13'],
    ],
    ['the last entry changed', lastChanged, original, undefined, ['root@0']],
    [
      'a fork: the same beginning, then another history under the same key',
      forked,
      checkpointOf(forked),
      original,
      ['inconsistent@0'],
    ],
    [
      'a tail cut and signed again by the log itself, against a kept checkpoint',
      clean.slice(0, -3),
      checkpointOf(clean.slice(0, -3)),
      original,
      ['inconsistent@10'],
    ],
    [
      'a kept checkpoint that the log did not sign',
      clean,
      original,
      checkpointOf(clean.slice(0, 5), otherKey),
      ['older_checkpoint@null'],
    ],
    [
      'half of a surrogate pair put into an entry',
      clean.with(
        1,
        edit(clean[1] as Uint8Array, (text) => text.replace('"tenant":"org"', '"tenant":"\\ud800"')),
      ),
      original,
      undefined,
      ['not_canonical@1', 'root@0'],
    ],
    ['an entry replaced by noise', clean.with(6, Buffer.from('noise')), original, undefined, ['not_json@6', 'root@0']],
    ['everything removed', [], original, undefined, ['size@0']],
    ['a checkpoint that is none', clean, 'checkpoint', undefined, ['malformed_note@null']],
    [
      'a stream removed and all signed again, against a kept checkpoint',
      streamRemoved,
      checkpointOf(streamRemoved),
      original,
      ['inconsistent@7'],
    ],
    ['all recomputed under another key', recomputed, checkpointOf(recomputed, otherKey), undefined, ['unsigned@null']],
    ['all recomputed and the old checkpoint kept', recomputed, original, undefined, ['root@0']],
    [
      'blanks added to an entry',
      clean.with(
        1,
        edit(clean[1] as Uint8Array, (text) => text.replace('{', '{ ')),
      ),
      original,
      undefined,
      ['not_canonical@1', 'root@0'],
    ],
  ])('%s', (_name, leaves, checkpoint, older, expected) => {
    expect(found(leaves, checkpoint, older)).toEqual(expect.arrayContaining(expected));
  });
});

describe('a story that cannot be is found even when its operator signs it', () => {
  const call = 'call_x';
  const at = (type: AuditEntry['type'], decision?: AuditEntry['decision']): Draft => ({
    stream: call,
    call,
    type,
    ...(decision === undefined ? {} : { decision }),
  });
  const allow = at('decision', { effect: 'allow' });
  const received = at('call.received');

  const asked = (subject: string) => ({ ...at('approval.answered'), approver: { subject } });
  const byAnn = { ...at('decision', { effect: 'allow', decided_by: 'human' }), approver: { subject: 'ann' } };
  test.each([
    ['dispatch without a decision', [received, at('dispatch.sent')], 'effect_without_decision@1'],
    [
      'dispatch after a denial',
      [received, at('decision', { effect: 'deny' }), at('dispatch.sent')],
      'effect_without_decision@2',
    ],
    ['a decision of a person who did not answer', [received, asked('bob'), byAnn], 'decision_without_answer@2'],
    ['a decision of a person before the answer', [received, byAnn, asked('ann')], 'decision_without_answer@1'],
    [
      'a call that is done without an end of its execution',
      [received, allow, at('dispatch.sent'), at('exec.started'), { ...at('call.closed'), detail: { state: 'done' } }],
      'closed_without_end@4',
    ],
    ['two decisions', [received, allow, allow], 'second_decision@2'],
    ['two dispatches', [received, allow, at('dispatch.sent'), at('dispatch.sent')], 'dispatched_twice@3'],
    [
      'two executions',
      [received, allow, at('dispatch.sent'), at('exec.started'), at('exec.started')],
      'started_twice@4',
    ],
    ['a start without a dispatch', [received, allow, at('exec.started')], 'started_without_dispatch@2'],
    ['an entry after the end', [received, at('call.closed'), allow], 'after_close@2'],
    ['two ends', [received, at('call.closed'), at('call.closed')], 'after_close@2'],
    ['a call without a beginning', [allow], 'not_received@0'],
    ['a call received twice', [received, received], 'received_twice@1'],
    ['a decision that decides nothing', [received, at('decision', { effect: 'ask' })], 'bad_decision@1'],
    ['a decision without content', [received, at('decision')], 'bad_decision@1'],
    ['a hand-over without a decision', [received, at('handed_over')], 'effect_without_decision@1'],
    ['an execution without a decision', [received, at('exec.started')], 'effect_without_decision@1'],
    ['a decision after the effect', [received, at('dispatch.sent'), allow], 'effect_without_decision@1'],
    [
      'the decision of another call',
      [received, { ...allow, call: 'call_y', stream: 'call_y' }, at('dispatch.sent')],
      'effect_without_decision@2',
    ],
    [
      'a call dispatched and handed over',
      [received, allow, at('dispatch.sent'), at('handed_over')],
      'dispatched_twice@3',
    ],
    [
      'a start of a call handed over',
      [received, allow, at('handed_over'), at('exec.started')],
      'started_without_dispatch@3',
    ],
    ['an end without a start', [received, allow, at('dispatch.sent'), at('exec.finished')], 'finished_without_start@3'],
    ['an interruption of what never left', [received, allow, at('exec.interrupted')], 'interrupted_without_dispatch@2'],
    ['a refusal of what was never sent', [received, allow, at('exec.refused')], 'refused_without_dispatch@2'],
    [
      'a background without a start',
      [received, allow, at('dispatch.sent'), at('exec.backgrounded')],
      'backgrounded_without_start@3',
    ],
    [
      'two ends of one execution',
      [received, allow, at('dispatch.sent'), at('exec.started'), at('exec.finished'), at('exec.interrupted')],
      'ended_twice@5',
    ],
    ['an execution of no call', [{ stream: 'host', type: 'exec.started' }], 'no_call@0'],
    ['a dispatch of no call', [{ stream: 'host', type: 'dispatch.sent' }], 'no_call@0'],
    ['a decision on no call', [{ stream: 'host', type: 'decision', decision: { effect: 'allow' } }], 'no_call@0'],
  ] as [string, Draft[], string][])('%s', (_name, entries, expected) => {
    expect(found(record(entries))).toContain(expected);
  });
});

describe('a story that can be is clean', () => {
  const call = 'call_x';
  const of = (...types: AuditEntry['type'][]): Draft[] =>
    types.map((type) => ({
      stream: call,
      call,
      type,
      ...(type === 'decision' ? { decision: { effect: 'allow' } } : {}),
    }));

  test.each([
    ['handed over, then reported', of('call.received', 'decision', 'handed_over', 'exec.finished', 'call.closed')],
    ['handed over, never reported', of('call.received', 'decision', 'handed_over', 'call.closed')],
    ['refused by its host', of('call.received', 'decision', 'dispatch.sent', 'exec.refused', 'call.closed')],
    ['interrupted before a start', of('call.received', 'decision', 'dispatch.sent', 'exec.interrupted', 'call.closed')],
    [
      'sent to the background',
      of(
        'call.received',
        'decision',
        'dispatch.sent',
        'exec.started',
        'exec.backgrounded',
        'exec.finished',
        'call.closed',
      ),
    ],
    ['expired without a decision', of('call.received', 'approval.requested', 'approval.expired', 'call.closed')],
    ['read after its end', of('call.received', 'call.rejected', 'call.closed', 'audit.read')],
    ['cancelled too late', of('call.received', 'call.rejected', 'call.closed', 'call.cancel_requested')],
  ])('%s', (_title, entries) => {
    expect(check(record(entries))).toMatchObject({ problems: [], entries: entries.length, openCalls: [] });
  });
});

describe('what the log says of itself is checked even when its operator signs it', () => {
  const reindex = (at: number, change: (text: string) => string) =>
    found(clean.with(at, edit(clean[at] as Uint8Array, change)));

  test.each([
    ['an index that is not its place', (text: string) => text.replace('"index":5', '"index":6'), 'index@5'],
    [
      'a time before its predecessor',
      (text: string) => text.replace('"recorded_ms":1005', '"recorded_ms":1003'),
      'time@5',
    ],
    ['a gap in its stream', (text: string) => text.replace('"stream_seq":4', '"stream_seq":5'), 'stream_seq@5'],
    ['a chain to nothing', (text: string) => text.replace(/"prev":"\w+"/, '"prev":null'), 'prev@5'],
    [
      'an id used before',
      (text: string) => text.replace('ent_5_exec.finished', 'ent_4_exec.started'),
      'duplicate_id@5',
    ],
    ['a type that is not known', (text: string) => text.replace('"exec.finished"', '"exec.faked"'), 'bad_field@5'],
  ])('%s', (_title, change, expected) => {
    expect(reindex(5, change)).toContain(expected);
  });

  test('a broken chain names the entry that it should continue from', () => {
    const { problems } = check(
      clean.with(
        2,
        edit(clean[2] as Uint8Array, (text) => text.replace('"mode"', '"rule"')),
      ),
    );
    expect(problems).toEqual([
      { index: 2, code: 'unchained', message: expect.stringContaining('entry 3,') },
      { index: 3, code: 'prev', message: expect.stringContaining('from entry 2,') },
    ]);
  });
});

test('one changed bit of one entry is found, wherever it is, and nothing makes the check throw', () => {
  const original = checkpointOf(clean);
  fc.assert(
    fc.property(fc.nat(clean.length - 1), fc.nat(), (at, bit) => {
      const changed = Uint8Array.from(clean[at] as Uint8Array);
      const byte = Math.floor(bit / 8) % changed.length;
      changed[byte] = (changed[byte] as number) ^ (1 << (bit % 8));
      expect(found(clean.with(at, changed), original)).toContain('root@0');
    }),
  );
});

test('any two entries swapped, any removed and any cut are found', () => {
  const original = checkpointOf(clean);
  for (const [at, leaf] of clean.entries()) {
    expect(found(clean.toSpliced(at, 1), original)).toContain('size@12');
    expect(found(clean.slice(0, at), original)).toContain(`size@${at}`);
    for (const [other, second] of clean.entries()) {
      if (other <= at) continue;
      const problems = found(clean.with(at, second).with(other, leaf), original);
      expect(problems).toEqual(expect.arrayContaining([`index@${at}`, `index@${other}`, 'root@0']));
    }
  }
});

test('an entry with an unknown field is refused', () => {
  const leaf = clean[0] as Uint8Array;
  const parsed = parseEntry(edit(leaf, (text) => text.replace('{"', '{"aaa":1,"')));
  expect(parsed.ok ? '' : parsed.error.code).toBe('unknown_field');
});
