import canonicalize from 'canonicalize';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type AuditEntry, canonicalEntryBytes, MAX_ENTRY_BYTES, parseEntry } from './index.ts';

const entry: AuditEntry = {
  version: 1,
  index: 3,
  id: 'ent_call_a_decision_1',
  tenant: 'org',
  stream: 'call_a',
  stream_seq: 1,
  prev: 'ab'.repeat(32),
  type: 'decision',
  emitted_ms: 1000,
  recorded_ms: 1001,
  call: 'call_a',
  trace: 'trace',
  session: 'ses_1',
  execution_session: 'ses_2',
  agent: { id: 'sample', model: 'm', on_behalf_of: 'ann' },
  host: 'local',
  tool: { name: 'bash', args_commitment: 'cd'.repeat(32) },
  decision: { effect: 'allow', decided_by: 'human' },
  approver: { subject: 'ann', method: 'passkey' },
  emitter: { role: 'gateway', id: 'gw_1', epoch: 4 },
  detail: { note: 'ünïcode \u20ac 😀', big: 1e21, small: 1e-7 },
};
const bytesOf = (value: object) => {
  const bytes = canonicalEntryBytes(value as AuditEntry);
  if (!bytes.ok) throw new Error(bytes.error.message);
  return bytes.value;
};
const text = Buffer.from(bytesOf(entry)).toString('utf8');
const codeOf = (result: { ok: boolean; error?: { code: string } }) => (result.ok ? 'ok' : result.error?.code);
const readCode = (changed: string) => codeOf(parseEntry(Buffer.from(changed)));

test('an entry reads back as it was written, and its bytes do not depend on the order of its fields', () => {
  expect(parseEntry(bytesOf(entry))).toEqual({ ok: true, value: entry });
  expect(bytesOf(Object.fromEntries(Object.entries(entry).reverse()))).toEqual(bytesOf(entry));
});

describe('bytes that are not exactly the canonical ones are refused', () => {
  test.each([
    ['a blank', text.replace('{', '{ '), 'not_canonical'],
    ['a last newline', `${text}\n`, 'not_canonical'],
    ['another order', text.replace(/^\{("agent":\{.*?\}),("approver":\{.*?\})/, '{$2,$1'), 'not_canonical'],
    ['a field twice', text.replace('"index":3', '"index":3,"index":3'), 'not_canonical'],
    ['a needless escape', text.replace('ünïcode', '\\u00fcnïcode'), 'not_canonical'],
    ['another form of a number', text.replace('"index":3', '"index":3.0'), 'not_canonical'],
    ['a negative zero', text.replace('"index":3', '"index":-0'), 'not_canonical'],
    ['half of a surrogate pair', text.replace('ünïcode', '\\ud83d'), 'not_canonical'],
    ['a number beyond every double', text.replace('1e+21', '1e999'), 'not_canonical'],
    ['a byte order mark', `\ufeff${text}`, 'not_json'],
    ['text that is not JSON', text.slice(1), 'not_json'],
    ['an array', '[]', 'bad_field'],
    ['null', 'null', 'bad_field'],
  ])('%s', (_title, changed, code) => {
    expect(changed).not.toBe(text);
    expect(readCode(changed)).toBe(code);
  });

  test('bytes that are not UTF-8', () => {
    expect(codeOf(parseEntry(Buffer.concat([Buffer.from(text), Buffer.of(0xff)])))).toBe('not_json');
  });
});

describe('fields', () => {
  test.each(['version', 'index', 'id', 'tenant', 'stream', 'stream_seq', 'prev', 'type', 'emitted_ms', 'recorded_ms'])(
    '`%s` cannot be left out',
    (name) => {
      const less = Object.fromEntries(Object.entries(entry).filter(([field]) => field !== name));
      expect(codeOf(canonicalEntryBytes(less as AuditEntry))).toBe('bad_field');
    },
  );

  test.each([
    [{ version: 2 }, 'bad_field'],
    [{ index: -1 }, 'bad_field'],
    [{ index: 2 ** 53 }, 'bad_field'],
    [{ stream_seq: 0.5 }, 'bad_field'],
    [{ prev: 'AB'.repeat(32) }, 'bad_field'],
    [{ prev: 'ab' }, 'bad_field'],
    [{ type: 'call.invented' }, 'bad_field'],
    [{ call: '' }, 'bad_field'],
    [{ agent: 'sample' }, 'bad_field'],
    [{ detail: [] }, 'bad_field'],
    [{ constructor: 'x' }, 'unknown_field'],
    [{ more: 1 }, 'unknown_field'],
    [{ detail: { note: '\ud800' } }, 'not_json'],
    [{ detail: { count: Number.NaN } }, 'not_json'],
    [{ detail: { count: 1n } }, 'not_json'],
  ])('%o is refused', (change, code) => {
    expect(codeOf(canonicalEntryBytes({ ...entry, ...change } as unknown as AuditEntry))).toBe(code);
  });

  test('`__proto__` is not a way around the list of fields', () => {
    expect(readCode(text.replace('{"agent"', '{"__proto__":{"call":"x"},"agent"'))).toBe('unknown_field');
  });
});

test('32 KiB is the largest entry, to the byte', () => {
  const padded = (size: number) => {
    const empty = bytesOf({ ...entry, detail: { pad: '' } }).length;
    return canonicalEntryBytes({ ...entry, detail: { pad: 'x'.repeat(size - empty) } });
  };
  expect(codeOf(padded(MAX_ENTRY_BYTES))).toBe('ok');
  expect(codeOf(padded(MAX_ENTRY_BYTES + 1))).toBe('too_large');
  expect(codeOf(parseEntry(new Uint8Array(MAX_ENTRY_BYTES + 1)))).toBe('too_large');
});

test('no bytes make the reader throw', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat(), (junk, seed) => {
      const bytes = Buffer.from(text);
      const at = seed % bytes.length;
      parseEntry(Buffer.concat([bytes.subarray(0, at), junk, bytes.subarray(at)]));
      parseEntry(junk);
    }),
  );
});

test('every entry that can be written reads back', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue()), fc.maxSafeNat(), (detail, index) => {
      const written = canonicalEntryBytes({ ...entry, index, detail });
      if (!written.ok) return;
      const read = parseEntry(written.value);
      expect(codeOf(read)).toBe('ok');
      expect(read.ok && bytesOf(read.value)).toEqual(written.value);
    }),
  );
});

test('the canonical form is that of an independent RFC 8785 writer, for every JSON value', () => {
  const canonical = (detail: Record<string, unknown>) => canonicalEntryBytes({ ...entry, detail });
  fc.assert(
    fc.property(fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue({ stringUnit: 'binary' })), (detail) => {
      const bytes = canonical(detail);
      expect(bytes.ok && new TextDecoder().decode(bytes.value)).toBe(canonicalize({ ...entry, detail }));
    }),
  );
  const hard = {
    10: 1,
    9: -0,
    é: 1e21,
    e: 1e-7,
    '\u20ac': '\u2028"\\\u0000',
    '\ud83d\ude00': [],
    '': { b: 1, a: null },
  };
  const bytes = canonical(hard);
  expect(bytes.ok && new TextDecoder().decode(bytes.value)).toBe(canonicalize({ ...entry, detail: hard }));
});

test.each([
  ['a lone surrogate', { a: '\ud800' }],
  ['a name with one', { '\udc00': 1 }],
  ['no number', { a: Number.NaN }],
])('%s has no canonical form', (_name, detail) => {
  expect(canonicalEntryBytes({ ...entry, detail })).toMatchObject({ ok: false, error: { code: 'not_json' } });
});
