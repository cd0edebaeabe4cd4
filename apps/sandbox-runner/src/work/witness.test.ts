import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  consistencyProof,
  formatCheckpoint,
  formatSignedNote,
  inclusionProof,
  leafHash,
  noteKeyId,
  rootOfLeaves,
  verifyCosignature,
} from '@countersign/merkle';
import {
  createIdentity,
  type Identity,
  openIdentity,
  ProofReply,
  ProofRequest,
  Receipt,
  rawPublicKey,
  verifySignature,
} from '@countersign/protocol';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Witness } from './witness.ts';

const sha256 = (data: Uint8Array) => new Uint8Array(createHash('sha256').update(data).digest());
const leavesOf = (texts: readonly string[]) => texts.map((text) => leafHash(sha256, new TextEncoder().encode(text)));
const A = ['a0', 'a1', 'a2', 'a3', 'a4', 'a5', 'a6'];
/** Another history that begins like the first. */
const B = ['a0', 'a1', 'b2', 'b3', 'b4', 'b5', 'b6', 'b7'];

const folder = mkdtempSync(path.join(tmpdir(), 'countersign-witness-'));
let log: Identity;
let host: Identity;
let file = '';
let nowMs = 1_000_000;
let requests: ProofRequest[] = [];
/** What audit shows at this moment. */
let shown: readonly string[] = A;
let answers: (request: ProofRequest) => ProofReply | undefined;
let files = 0;

beforeAll(async () => {
  log = await openIdentity(await createIdentity('log', 'log'));
  host = await openIdentity(await createIdentity('host', 'h1'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function noteOf(texts: readonly string[], by = log, name = 'countersign/test'): string {
  const text = formatCheckpoint({ origin: name, size: texts.length, root: rootOfLeaves(sha256, leavesOf(texts)) });
  const keyId = noteKeyId(sha256, name, rawPublicKey(by.publicKey));
  return formatSignedNote(text, [{ name, keyId, signature: by.sign(new TextEncoder().encode(text)) }]);
}

/** What an honest audit service that shows `texts` answers. */
function honest(request: ProofRequest, texts = shown): ProofReply {
  const leaves = leavesOf(texts);
  const old = Number(request.oldSize);
  return {
    checkpoint: noteOf(texts),
    consistency: old > 0 && old < leaves.length ? consistencyProof(sha256, leaves, old, leaves.length) : [],
    paths: request.logIndexes
      .filter((index) => Number(index) < leaves.length)
      .map((logIndex) => ({ logIndex, path: inclusionProof(sha256, leaves, Number(logIndex), leaves.length) })),
  };
}

function newWitness(): Witness {
  return new Witness({
    file,
    identity: host,
    logKeys: () => [log.publicKey],
    clock: { now: () => nowMs },
    ask: async (bytes) => {
      const request = ProofRequest.decode(bytes);
      requests.push(request);
      const reply = answers(request);
      if (!reply) throw new Error('no answer');
      return ProofReply.encode(reply).finish();
    },
    logger: { fatal: () => undefined, warn: () => undefined } as never,
  });
}

beforeEach(() => {
  files += 1;
  file = path.join(folder, `w${files}`);
  nowMs = 1_000_000;
  requests = [];
  answers = honest;
});

/** A beat of `texts` after `ms`. */
async function beat(witness: Witness, texts: readonly string[], ms = 20_000): Promise<void> {
  nowMs += ms;
  shown = texts;
  await witness.see(noteOf(texts));
}
const receipt = (texts: readonly string[], index: number) =>
  Receipt.fromPartial({
    callId: 'call_a',
    logIndex: BigInt(index),
    leafHash: leavesOf(texts)[index] ?? new Uint8Array(),
  });

describe('a host that watches the log', () => {
  test('starts nothing before it has seen a good checkpoint, nor two minutes after the last one', async () => {
    const witness = newWitness();
    expect(witness.stale()).not.toBe('');
    await beat(witness, A.slice(0, 3));
    expect(witness.stale()).toBe('');
    nowMs += 121_000;
    expect(witness.stale()).not.toBe('');
    await beat(witness, A.slice(0, 3));
    expect([witness.stale(), witness.fault()]).toEqual(['', '']);
  });

  test('takes a longer log only as a proven extension, and a checkpoint of another key or log for nothing', async () => {
    const witness = newWitness();
    await beat(witness, A.slice(0, 3));
    await beat(witness, A.slice(0, 6));
    expect(requests.at(-1)?.oldSize).toBe(3n);
    await beat(witness, A);
    expect(requests.at(-1)?.oldSize).toBe(6n);
    nowMs += 121_000;
    await witness.see(noteOf(A, host));
    await witness.see(noteOf(A, log, 'countersign/other'));
    await witness.see('no note');
    expect(witness.stale()).not.toBe('');
    expect(witness.fault()).toBe('');
  });

  test.each<[string, readonly string[]]>([
    ['a fork of the same size', B.slice(0, 7)],
    ['a longer fork', B],
  ])('stops at %s, also after a restart', async (_name, other) => {
    const witness = newWitness();
    await beat(witness, A);
    await beat(witness, other);
    expect(witness.fault()).not.toBe('');
    const again = newWitness();
    expect(again.fault()).toBe(witness.fault());
    await beat(again, A);
    expect(again.stale()).not.toBe('');
  });

  test('does not take a log that was rolled back for fresh, and stops when it grows past what was seen', async () => {
    const witness = newWitness();
    await beat(witness, A);
    nowMs += 110_000;
    await beat(witness, A.slice(0, 4));
    expect(witness.stale()).not.toBe('');
    expect(witness.fault()).toBe('');
    await beat(witness, [...A.slice(0, 4), ...B.slice(2, 7)]);
    expect(witness.fault()).toMatch(/does not extend/);
  });

  test('knows after a restart what it saw before', async () => {
    await beat(newWitness(), A);
    const again = newWitness();
    expect(again.stale()).not.toBe('');
    await beat(again, B);
    expect(again.fault()).not.toBe('');
  });

  test('stops when a decision that it acted on is not in the log', async () => {
    const witness = newWitness();
    await beat(witness, A.slice(0, 3));
    witness.acted(receipt(A, 4));
    await beat(witness, A.slice(0, 6));
    expect(requests.at(-1)?.logIndexes).toEqual([4n]);
    expect(witness.fault()).toBe('');
    witness.acted(receipt(B, 3));
    await beat(witness, A);
    expect(witness.fault()).toMatch(/call_a/);
  });

  test('stops when audit leaves the proof of a decision out', async () => {
    const witness = newWitness();
    await beat(witness, A.slice(0, 3));
    witness.acted(receipt(A, 1));
    answers = (request) => ({ ...honest(request), paths: [] });
    await beat(witness, A);
    expect(witness.fault()).not.toBe('');
  });

  test('waits, and asks again, while audit gives no proof or one of something else', async () => {
    const witness = newWitness();
    await beat(witness, A.slice(0, 3));
    answers = () => undefined;
    await beat(witness, A);
    await beat(witness, A, 1_000);
    answers = (request) => ({ ...honest(request), checkpoint: noteOf(A, host) });
    await beat(witness, A);
    nowMs += 121_000;
    expect([witness.stale() === '', witness.fault()]).toEqual([false, '']);
    answers = honest;
    await beat(witness, A);
    expect([witness.stale(), witness.fault()]).toEqual(['', '']);
  });

  test('cosigns what it found good, every ten minutes', async () => {
    const witness = newWitness();
    await beat(witness, A.slice(0, 3));
    const { cosigned } = requests[0] ?? { cosigned: '' };
    const verifier = {
      name: 'host/h1',
      publicKey: rawPublicKey(host.publicKey),
      sha256,
      verifyEd25519: (_key: Uint8Array, message: Uint8Array, signature: Uint8Array) =>
        verifySignature(host.publicKey, message, signature),
    };
    expect(verifyCosignature(cosigned, verifier)).toEqual({ name: 'host/h1', seconds: Math.floor(nowMs / 1_000) });
    await beat(witness, A);
    expect(requests.at(-1)?.cosigned).toBe('');
    await beat(witness, A, 600_000);
    expect(verifyCosignature(requests.at(-1)?.cosigned ?? '', verifier)?.name).toBe('host/h1');
  });
});
