import { createHash, createPublicKey, generateKeyPairSync, sign, verify } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import {
  concatBytes,
  formatCheckpoint,
  formatSignedNote,
  fromBase64,
  noteKeyId,
  parseCheckpoint,
  parseSignedNote,
  toBase64,
  verifySignedNote,
} from './index.ts';

const sha256 = (data: Uint8Array) => new Uint8Array(createHash('sha256').update(data).digest());
const spki = Buffer.from('302a300506032b6570032100', 'hex');
const verifyEd25519 = (key: Uint8Array, message: Uint8Array, signature: Uint8Array) =>
  verify(null, message, createPublicKey({ key: Buffer.concat([spki, key]), format: 'der', type: 'spki' }), signature);

const NAME = 'log.countersign.example';
const key = generateKeyPairSync('ed25519');
const publicKey = new Uint8Array(key.publicKey.export({ format: 'der', type: 'spki' }).subarray(12));
const verifier = { name: NAME, publicKey, verifyEd25519, sha256 };
const root = sha256(Uint8Array.of(1));
const text = formatCheckpoint({ origin: NAME, size: 7, root });
const lineOf = (signed = text, keyId = noteKeyId(sha256, NAME, publicKey)) => ({
  name: NAME,
  keyId,
  signature: new Uint8Array(sign(null, Buffer.from(signed), key.privateKey)),
});
const codeOf = (note: string, by = verifier) => {
  const checked = verifySignedNote(note, by);
  return checked.ok ? 'ok' : checked.error.code;
};

test('a note of the reference implementation is read, written and verified', () => {
  const vector = JSON.parse(
    readFileSync(new URL('../../../vectors/merkle/note.json', import.meta.url), 'utf8'),
  ) as Record<'name' | 'keyId' | 'typedPublicKey' | 'text' | 'signatureLine', string>;
  const author = (fromBase64(vector.typedPublicKey) as Uint8Array).slice(1);
  expect(Buffer.from(noteKeyId(sha256, vector.name, author)).toString('hex')).toBe(vector.keyId);
  const note = `${vector.text}\n${vector.signatureLine}`;
  const parsed = parseSignedNote(note);
  if (!parsed.ok) throw new Error(parsed.error.message);
  expect(parsed.value.text).toBe(vector.text);
  expect(formatSignedNote(parsed.value.text, parsed.value.signatures)).toBe(note);
  const [line] = parsed.value.signatures;
  expect(verifyEd25519(author, Buffer.from(vector.text), line?.signature ?? new Uint8Array())).toBe(true);
  // Its signature holds, but its text is no checkpoint.
  expect(codeOf(note, { ...verifier, name: vector.name, publicKey: author })).toBe('malformed_checkpoint');
});

test('a signed checkpoint gives back what was signed', () => {
  expect(verifySignedNote(formatSignedNote(text, [lineOf()]), verifier)).toEqual({
    ok: true,
    value: { origin: NAME, size: 7, root },
  });
});

describe('signatures', () => {
  const good = lineOf();
  const bad = { ...good, signature: new Uint8Array(64) };
  const foreign = { name: 'witness.example', keyId: Uint8Array.of(1, 2, 3, 4), signature: new Uint8Array(72) };
  const note = formatSignedNote(text, [good]);

  test.each([
    ['those of unknown keys are ignored', formatSignedNote(text, [foreign, good]), verifier, 'ok'],
    [
      'one under our name with another key id is unknown',
      formatSignedNote(text, [{ ...good, keyId: foreign.keyId }]),
      verifier,
      'unsigned',
    ],
    ['unknown ones alone are not enough', formatSignedNote(text, [foreign]), verifier, 'unsigned'],
    ['a false one by the log refuses the whole note', formatSignedNote(text, [good, bad]), verifier, 'unsigned'],
    ['one over other text is refused', formatSignedNote(text, [lineOf(text.replace('7', '8'))]), verifier, 'unsigned'],
    [
      'one cut short is refused',
      formatSignedNote(text, [{ ...good, signature: good.signature.slice(1) }]),
      verifier,
      'unsigned',
    ],
    ['none holds under a key that is not 32 bytes', note, { ...verifier, publicKey: publicKey.slice(1) }, 'unsigned'],
    ['none holds under the name of another log', note, { ...verifier, name: 'other.example' }, 'unsigned'],
  ])('%s', (_title, signed, by, expected) => {
    expect(codeOf(signed, by)).toBe(expected);
  });

  test('our key id under the name of another is an unknown key', () => {
    expect(codeOf(formatSignedNote(text, [{ ...good, name: 'other.example' }]))).toBe('unsigned');
  });

  test('a key of another length verifies nothing, even where the given function would say yes', () => {
    const short = publicKey.slice(1);
    const line = lineOf(text, noteKeyId(sha256, NAME, short));
    const gullible = { ...verifier, publicKey: short, verifyEd25519: () => true };
    expect(codeOf(formatSignedNote(text, [line]), gullible)).toBe('unsigned');
  });

  test('a log cannot sign for the origin of another', () => {
    const other = formatCheckpoint({ origin: 'other.example', size: 7, root });
    expect(codeOf(formatSignedNote(other, [lineOf(other)]))).toBe('malformed_checkpoint');
  });
});

describe('notes that are not of the format are refused', () => {
  const line = `— ${NAME} ${toBase64(concatBytes(Uint8Array.of(1, 2, 3, 4), new Uint8Array(64)))}\n`;
  test.each([
    ['no signature', `${text}\n`],
    ['no blank line', `${text}${line}`],
    ['no last newline', `${text}\n${line.slice(0, -1)}`],
    ['a hyphen for the dash', `${text}\n${line.replace('—', '-')}`],
    ['plus in a name', `${text}\n${line.replace(NAME, 'a+b')}`],
    ['a wide blank in a name', `${text}\n${line.replace(NAME, 'a\u2003b')}`],
    ['a signature without bytes after the key id', `${text}\n— ${NAME} AQIDBA==\n`],
    ['base64 with loose bits', `${text}\n— ${NAME} AQIDBAV=\n`],
    ['a carriage return', `${text.replace('\n', '\r\n')}\n${line}`],
    ['a lone surrogate', `\ud800\n\n${line}`],
    ['more than 64 signatures', `${text}\n${line.repeat(65)}`],
    ['more than 64 KiB', `${'a'.repeat(65_536)}\n\n${line}`],
  ])('%s', (_title, note) => {
    const parsed = parseSignedNote(note);
    expect(parsed.ok ? parsed.value : parsed.error.code).toBe('malformed_note');
  });

  test('16 signatures are read, as the format demands', () => {
    const parsed = parseSignedNote(`${text}\n${line.repeat(16)}`);
    expect(parsed.ok && parsed.value.signatures.length).toBe(16);
  });
});

test.each([
  ['an empty origin', `\n7\n${toBase64(root)}\n`],
  ['a leading zero', `a\n07\n${toBase64(root)}\n`],
  ['a sign', `a\n-1\n${toBase64(root)}\n`],
  ['a size that no number holds exactly', `a\n9007199254740993\n${toBase64(root)}\n`],
  ['a short root', `a\n7\n${toBase64(root.slice(1))}\n`],
  ['an extension line', `a\n7\n${toBase64(root)}\nmore\n`],
  ['a missing newline', `a\n7\n${toBase64(root)}`],
])('a checkpoint with %s is refused', (_title, bad) => {
  expect(parseCheckpoint(bad).ok).toBe(false);
});

test('what could not be read back is never written', () => {
  expect(() => formatCheckpoint({ origin: 'a\nb', size: 1, root })).toThrow(RangeError);
  expect(() => formatCheckpoint({ origin: 'a', size: 1.5, root })).toThrow(RangeError);
  expect(() => formatCheckpoint({ origin: 'a', size: 1, root: new Uint8Array(31) })).toThrow(RangeError);
  expect(() => formatSignedNote('no newline', [lineOf()])).toThrow(RangeError);
  expect(() => formatSignedNote(text, [])).toThrow(RangeError);
  expect(() => formatSignedNote(text, [{ ...lineOf(), name: 'a b' }])).toThrow(RangeError);
});
