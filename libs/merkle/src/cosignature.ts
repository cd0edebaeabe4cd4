import { type NoteSignature, type NoteVerifier, parseSignedNote } from './checkpoint.ts';
import { concatBytes, equalBytes, type Sha256 } from './tree.ts';

const COSIGNATURE_TYPE = 4;
const TIME_BYTES = 8;
const COSIGNATURE_BYTES = 72;

/** Key id of a witness, C2SP tlog-cosignature: first 4 bytes of SHA-256(name ‖ LF ‖ 0x04 ‖ key). */
export const witnessKeyId = (sha256: Sha256, name: string, publicKey: Uint8Array): Uint8Array =>
  sha256(concatBytes(new TextEncoder().encode(`${name}\n`), Uint8Array.of(COSIGNATURE_TYPE), publicKey)).slice(0, 4);

/** What a witness signs: the note's text under a time in seconds since the Unix epoch. */
export const cosignedMessage = (text: string, seconds: number): Uint8Array =>
  new TextEncoder().encode(`cosignature/v1\ntime ${seconds}\n${text}`);

/** Signature line of a witness. */
export function cosignature(witness: {
  readonly name: string;
  readonly keyId: Uint8Array;
  readonly seconds: number;
  /** Over `cosignedMessage`. */
  readonly signature: Uint8Array;
}): NoteSignature {
  const time = new Uint8Array(TIME_BYTES);
  new DataView(time.buffer).setBigUint64(0, BigInt(witness.seconds));
  return { name: witness.name, keyId: witness.keyId, signature: concatBytes(time, witness.signature) };
}

/** A witness's word for a checkpoint; `seconds` is its own time. */
export type Cosigned = { readonly name: string; readonly seconds: number };

/**
 * Cosignatures of `witness` on a note that verify. A line that claims the witness's key and does not verify gives undefined:
 * somebody wrote it who is not the witness.
 */
export function verifyCosignature(note: string, witness: NoteVerifier): Cosigned | undefined {
  const parsed = parseSignedNote(note);
  if (!parsed.ok) return undefined;
  const keyId = witnessKeyId(witness.sha256, witness.name, witness.publicKey);
  const { text, signatures } = parsed.value;
  const claimed = signatures.filter((line) => line.name === witness.name && equalBytes(line.keyId, keyId));
  let newest: Cosigned | undefined;
  for (const { signature } of claimed) {
    if (signature.length !== COSIGNATURE_BYTES) return undefined;
    const time = new DataView(signature.buffer, signature.byteOffset).getBigUint64(0);
    if (time > BigInt(Number.MAX_SAFE_INTEGER)) return undefined;
    const seconds = Number(time);
    if (!witness.verifyEd25519(witness.publicKey, cosignedMessage(text, seconds), signature.subarray(TIME_BYTES)))
      return undefined;
    if (!newest || seconds > newest.seconds) newest = { name: witness.name, seconds };
  }
  return newest;
}
