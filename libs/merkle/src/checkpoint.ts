import { err, ok, type Result } from '@countersign/kernel';
import { concatBytes, equalBytes, type Sha256 } from './tree.ts';

/** Checks an Ed25519 signature with a raw 32-byte public key; passed in. */
export type VerifyEd25519 = (publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array) => boolean;

/** C2SP tlog-checkpoint: origin, size, root. */
export type Checkpoint = { readonly origin: string; readonly size: number; readonly root: Uint8Array };
/** One signature line of a C2SP signed note. */
export type NoteSignature = { readonly name: string; readonly keyId: Uint8Array; readonly signature: Uint8Array };
export type SignedNote = { readonly text: string; readonly signatures: readonly NoteSignature[] };
export type NoteError = {
  readonly code: 'malformed_note' | 'malformed_checkpoint' | 'unsigned';
  readonly message: string;
};

const ED25519_TYPE = 1;
/** Bounds the work for a note that is not trusted yet. */
const MAX_NOTE = 65_536;
const MAX_SIGNATURES = 64;
const SIGNATURE_BYTES = 64;
const KEY_BYTES = 32;
const ROOT_BYTES = 32;

/** C2SP signed-note: valid Unicode and no control characters below U+0020 but newlines. */
const isNoteText = (text: string): boolean =>
  text.isWellFormed() && Array.from(text).every((char) => char === '\n' || char >= ' ');
const isKeyName = (name: string): boolean => /^[^\s+]+$/u.test(name);

/** Standard base64 with padding (RFC 4648 section 4). */
export const toBase64 = (bytes: Uint8Array): string =>
  btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));

/** Reads canonical standard base64; undefined for anything else. */
export function fromBase64(text: string): Uint8Array | undefined {
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text)) return undefined;
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  return toBase64(bytes) === text ? bytes : undefined;
}

/** Text of a checkpoint, C2SP tlog-checkpoint: three lines, each ended by a newline. Throws for what could not be read back. */
export function formatCheckpoint(checkpoint: Checkpoint): string {
  const text = `${checkpoint.origin}\n${checkpoint.size}\n${toBase64(checkpoint.root)}\n`;
  if (!parseCheckpoint(text).ok)
    throw new RangeError('a checkpoint needs a one-line origin, a size and a 32-byte root');
  return text;
}

/** Reads the text of a checkpoint; extension lines are not accepted. */
export function parseCheckpoint(text: string): Result<Checkpoint, NoteError> {
  const malformed = err({ code: 'malformed_checkpoint' as const, message: 'checkpoint is not origin, size and root' });
  const [origin, size, root, end, ...more] = text.split('\n');
  if (!origin || size === undefined || root === undefined || end !== '' || more.length > 0) return malformed;
  if (!isNoteText(origin)) return malformed;
  if (!/^(?:0|[1-9][0-9]{0,15})$/.test(size) || !Number.isSafeInteger(Number(size))) return malformed;
  const hash = fromBase64(root);
  if (hash?.length !== ROOT_BYTES) return malformed;
  return ok({ origin, size: Number(size), root: hash });
}

/** Key id of a note verifier: first 4 bytes of SHA-256(name ‖ LF ‖ 0x01 ‖ key), C2SP signed-note. */
export const noteKeyId = (sha256: Sha256, name: string, publicKey: Uint8Array): Uint8Array =>
  sha256(concatBytes(new TextEncoder().encode(`${name}\n`), Uint8Array.of(ED25519_TYPE), publicKey)).slice(0, 4);

/** Text, an empty line, and one line for each signature. Throws for what could not be read back. */
export function formatSignedNote(text: string, signatures: readonly NoteSignature[]): string {
  const lines = signatures.map((line) => `— ${line.name} ${toBase64(concatBytes(line.keyId, line.signature))}\n`);
  const note = `${text}\n${lines.join('')}`;
  const parsed = parseSignedNote(note);
  if (!parsed.ok || parsed.value.text !== text)
    throw new RangeError('a note needs text that ends in a newline, and signatures by names without blanks or plus');
  return note;
}

/** Splits a signed note. Does not verify. */
export function parseSignedNote(note: string): Result<SignedNote, NoteError> {
  const malformed = err({ code: 'malformed_note' as const, message: 'not a signed note' });
  const at = note.lastIndexOf('\n\n');
  if (note.length > MAX_NOTE || at < 0 || !note.endsWith('\n') || !isNoteText(note)) return malformed;
  const signatures: NoteSignature[] = [];
  for (const line of note.slice(at + 2, -1).split('\n')) {
    const found = /^— (\S+) (\S+)$/.exec(line);
    const bytes = found?.[2] === undefined ? undefined : fromBase64(found[2]);
    if (found?.[1] === undefined || bytes === undefined || bytes.length < 5) return malformed;
    if (!isKeyName(found[1]) || signatures.length === MAX_SIGNATURES) return malformed;
    signatures.push({ name: found[1], keyId: bytes.slice(0, 4), signature: bytes.slice(4) });
  }
  return ok({ text: note.slice(0, at + 1), signatures });
}

/** Who must have signed a note. */
export type NoteVerifier = {
  readonly name: string;
  /** Raw Ed25519 key, 32 bytes. */
  readonly publicKey: Uint8Array;
  readonly verifyEd25519: VerifyEd25519;
  readonly sha256: Sha256;
};

/**
 * Verifies a signed checkpoint of the log `verifier.name`. Signatures of other keys are ignored; every signature that claims
 * this key must verify, and there must be one.
 */
export function verifySignedNote(note: string, verifier: NoteVerifier): Result<Checkpoint, NoteError> {
  const parsed = parseSignedNote(note);
  if (!parsed.ok) return parsed;
  const keyId = noteKeyId(verifier.sha256, verifier.name, verifier.publicKey);
  const message = new TextEncoder().encode(parsed.value.text);
  const claimed = parsed.value.signatures.filter(
    (line) => line.name === verifier.name && equalBytes(line.keyId, keyId),
  );
  const signed =
    verifier.publicKey.length === KEY_BYTES &&
    claimed.length > 0 &&
    claimed.every(
      ({ signature }) =>
        signature.length === SIGNATURE_BYTES && verifier.verifyEd25519(verifier.publicKey, message, signature),
    );
  if (!signed) return err({ code: 'unsigned', message: `no valid signature by \`${verifier.name}\`` });
  const checkpoint = parseCheckpoint(parsed.value.text);
  if (checkpoint.ok && checkpoint.value.origin !== verifier.name) {
    return err({ code: 'malformed_checkpoint', message: 'origin is not the log that signed' });
  }
  return checkpoint;
}
