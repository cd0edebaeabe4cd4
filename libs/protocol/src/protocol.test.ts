import { randomBytes } from 'node:crypto';
import { fromPublic } from '@nats-io/nkeys';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  callDigest,
  canonicalEnvelope,
  createIdentity,
  EnvelopeKind,
  type Identity,
  openEnvelope,
  openIdentity,
  openRoster,
  parseIJson,
  Receipt,
  sealTo,
  signEnvelope,
  signReceipt,
  signRoster,
  subjects,
  verifyReceipt,
} from './index.ts';

const NOW = 1_796_000_000_000;
const text = (value: string) => new TextEncoder().encode(value);
let alice: Identity;
let mallory: Identity;

beforeAll(async () => {
  alice = await openIdentity(await createIdentity('agent', 'alice'));
  mallory = await openIdentity(await createIdentity('agent', 'mallory'));
});

describe('signed envelopes', () => {
  const expected = () => ({
    kind: EnvelopeKind.CALL,
    subject: subjects.call('alice'),
    issuer: alice.publicKey,
    nowMs: NOW,
    maxAgeMs: 30_000,
  });
  const sign = (by: Identity, changes: object = {}) =>
    signEnvelope(by, {
      kind: EnvelopeKind.CALL,
      subject: subjects.call('alice'),
      body: text('b'),
      nowMs: NOW,
      ...changes,
    });
  const codeOf = (bytes: Uint8Array) => {
    const opened = openEnvelope(bytes, expected());
    return opened.ok ? 'ok' : opened.error.code;
  };

  test('a signature verifies with the NATS key library too', () => {
    const data = text('data');
    expect(fromPublic(alice.publicKey).verify(data, alice.sign(data))).toBe(true);
  });

  test.each([
    ['as sent', () => sign(alice), 'ok'],
    ['by another sender', () => sign(mallory), 'wrong_issuer'],
    ['for another subject', () => sign(alice, { subject: subjects.call('bob') }), 'wrong_subject'],
    ['of another kind', () => sign(alice, { kind: EnvelopeKind.CANCEL }), 'wrong_kind'],
    ['31 s old', () => sign(alice, { nowMs: NOW - 31_000 }), 'too_old'],
    ['from the future', () => sign(alice, { nowMs: NOW + 6_000 }), 'from_the_future'],
    ['not an envelope', () => text('\u00ff\u00ff'), 'malformed'],
    ['over the limit', () => new Uint8Array(1_048_577), 'too_large'],
  ])('an envelope %s is judged `%s`', (_name, make, code) => {
    expect(codeOf(make())).toBe(code);
  });

  test('no flipped bit is accepted with another content', () => {
    const bytes = sign(alice);
    const original = openEnvelope(bytes, expected());
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 0, max: 7 }), (at, bit) => {
        const changed = Uint8Array.from(bytes);
        changed[at] = (changed[at] ?? 0) ^ (1 << bit);
        const opened = openEnvelope(changed, expected());
        expect(opened.ok ? opened : 'refused').toEqual(opened.ok ? original : 'refused');
      }),
    );
  });
});

describe('sealing', () => {
  test('only the recipient opens it, and only under the same associated data', async () => {
    const sealed = await sealTo(alice.sealPublicKey, text('secret'), 'call_1');
    expect(await alice.open(sealed, 'call_1')).toEqual(text('secret'));
    await expect(alice.open(sealed, 'call_2')).rejects.toThrow();
    await expect(mallory.open(sealed, 'call_1')).rejects.toThrow();
  });
});

describe('receipts and digests', () => {
  const fields = () => ({
    callId: 'call_1',
    orderId: 'ord_1',
    host: 'local',
    callDigest: new Uint8Array(32),
    entryId: 'ent_1',
    logIndex: 7n,
    leafHash: new Uint8Array(32),
    decidedBy: 'human',
    assertionsDigest: new Uint8Array(),
    termsDigest: new Uint8Array(32),
  });

  test.each([
    ['callId', 'call_2'],
    ['orderId', 'ord_2'],
    ['host', 'other'],
    ['callDigest', new Uint8Array(32).fill(1)],
    ['entryId', 'ent_2'],
    ['logIndex', 8n],
    ['decidedBy', 'rule'],
    ['assertionsDigest', new Uint8Array([1])],
    ['termsDigest', new Uint8Array(32).fill(1)],
  ])('a receipt with another `%s` does not verify', (field, value) => {
    const receipt = signReceipt(alice, fields());
    expect(verifyReceipt(receipt, alice.publicKey)).toBe(true);
    expect(verifyReceipt({ ...receipt, [field]: value }, alice.publicKey)).toBe(false);
    expect(verifyReceipt(receipt, mallory.publicKey)).toBe(false);
  });

  test('a receipt survives its encoding', () => {
    const receipt = signReceipt(alice, fields());
    expect(verifyReceipt(Receipt.decode(Receipt.encode(receipt).finish()), alice.publicKey)).toBe(true);
  });

  test('the call digest covers salt, every argument byte and the envelope', () => {
    const envelope = {
      agent: 'a',
      callId: 'call_1',
      sessionId: 'ses_1',
      tool: 'bash',
      executor: 'runner',
      deadlineMs: 0,
    };
    const salt = randomBytes(32);
    const base = callDigest(salt, text('{}'), canonicalEnvelope(envelope));
    expect(callDigest(salt, text('{} '), canonicalEnvelope(envelope))).not.toEqual(base);
    expect(callDigest(randomBytes(32), text('{}'), canonicalEnvelope(envelope))).not.toEqual(base);
    expect(callDigest(salt, text('{}'), canonicalEnvelope({ ...envelope, agent: 'b' }))).not.toEqual(base);
  });

  test('a roster signed by another root is refused', () => {
    const member = { role: 'audit' as const, id: 'audit', signKey: alice.publicKey, sealKey: alice.sealPublicKey };
    const roster = { version: 1, members: [member] };
    expect(openRoster(signRoster(alice, roster), alice.publicKey)).toEqual({ ok: true, value: roster });
    expect(openRoster(signRoster(mallory, roster), alice.publicKey).ok).toBe(false);
  });
});

describe('I-JSON', () => {
  const parse = (source: string) => {
    const parsed = parseIJson(text(source));
    return parsed.ok ? parsed.value : parsed.error.code;
  };

  test.each([
    ['{"a":1,"a":2}', 'duplicate_key'],
    ['{"a":1,"\\u0061":2}', 'duplicate_key'],
    ['"\\ud800"', 'lone_surrogate'],
    ['9007199254740993', 'unsafe_number'],
    ['1e999', 'unsafe_number'],
    [`${'['.repeat(40)}${']'.repeat(40)}`, 'too_deep'],
    ['{"a":1} x', 'malformed_json'],
    ['"a\nb"', 'malformed_json'],
    ['{"a":1,}', 'malformed_json'],
    ['01', 'malformed_json'],
    ['', 'malformed_json'],
    ['\ufeff{}', 'malformed_json'],
  ])('%j is refused as `%s`', (source, code) => {
    expect(parse(source)).toBe(code);
  });

  test('`__proto__` is an ordinary key', () => {
    expect(Object.keys(parse('{"__proto__":1}') as object)).toEqual(['__proto__']);
  });

  test('accepts what JSON.stringify writes', () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false, maxDepth: 6 }), (value) => {
        const source = JSON.stringify(value);
        const parsed = parseIJson(text(source));
        if (parsed.ok) expect(parsed.value).toEqual(JSON.parse(source));
        else expect(['unsafe_number', 'lone_surrogate']).toContain(parsed.error.code);
      }),
    );
  });
});

test.each(['a.b', '*', '>', '', 'x'.repeat(65)])('`%s` cannot become part of a subject', (token) => {
  expect(() => subjects.call(token)).toThrow(TypeError);
});
