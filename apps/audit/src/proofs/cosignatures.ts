import { createHash, createPublicKey, verify } from 'node:crypto';
import {
  formatSignedNote,
  fromBase64,
  type NoteVerifier,
  parseSignedNote,
  toBase64,
  verifyCosignature,
  witnessKeyId,
} from '@countersign/merkle';
import { type Identity, rawPublicKey } from '@countersign/protocol';
import type pg from 'pg';

export const sha256 = (data: Uint8Array): Uint8Array => new Uint8Array(createHash('sha256').update(data).digest());

/** False also for a key that is none. */
export const verifyEd25519 = (publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean => {
  try {
    const jwk = { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(publicKey).toString('base64url') };
    return verify(null, message, createPublicKey({ key: jwk, format: 'jwk' }), signature);
  } catch {
    return false;
  }
};

/** Verifier of the notes that the log signs. */
export const logVerifier = (name: string, { publicKey }: Pick<Identity, 'publicKey'>): NoteVerifier => ({
  name,
  publicKey: rawPublicKey(publicKey),
  sha256,
  verifyEd25519,
});

/** A witness that may cosign, from its C2SP verifier key `name+id+base64`; undefined for anything else. */
export function readWitness(text: string): NoteVerifier | undefined {
  const [, name, id, base64] = /^([^\s+]+)\+([0-9a-f]{8})\+(\S+)$/.exec(text) ?? [];
  const key = base64 === undefined ? undefined : fromBase64(base64);
  if (name === undefined || key?.[0] !== 4 || key.length !== 33) return undefined;
  const publicKey = key.subarray(1);
  const isOwn = Buffer.from(witnessKeyId(sha256, name, publicKey)).toString('hex') === id;
  return isOwn ? { name, publicKey, sha256, verifyEd25519 } : undefined;
}

type Kept = { size: string; note: string };

/**
 * Keeps the cosignatures of `witnesses` on a stored checkpoint. The text must be the stored one to the byte; a line that no
 * witness of ours made is left out. Returns the names that were kept.
 */
export async function addCosignatures(
  pool: pg.Pool,
  note: string,
  witnesses: readonly NoteVerifier[],
  nowMs: number,
): Promise<string[]> {
  const given = parseSignedNote(note);
  if (!given.ok) return [];
  const size = /^[^\n]*\n(\d{1,16})\n/.exec(given.value.text)?.[1];
  const stored = await pool.query<Kept>('select size, note from audit.checkpoint where size = $1', [size ?? -1]);
  const original = parseSignedNote(stored.rows[0]?.note ?? '');
  if (!original.ok || original.value.text !== given.value.text) return [];
  const kept: string[] = [];
  for (const witness of witnesses) {
    if (!verifyCosignature(note, witness)) continue;
    const keyId = witnessKeyId(sha256, witness.name, witness.publicKey);
    const lines = given.value.signatures.filter(
      (line) => line.name === witness.name && toBase64(line.keyId) === toBase64(keyId),
    );
    const line = formatSignedNote(given.value.text, lines).slice(given.value.text.length + 1);
    await pool.query('insert into audit.cosignature values ($1, $2, $3, $4) on conflict do nothing', [
      size,
      witness.name,
      line,
      nowMs,
    ]);
    kept.push(witness.name);
  }
  return kept;
}

/** Stored checkpoints with the cosignatures that were added: the last of each day, newest first. */
export async function listCheckpoints(
  pool: pg.Pool,
  { limit, before }: { limit: number; before: number },
): Promise<{ size: number; note: string }[]> {
  const { rows } = await pool.query<Kept & { lines: string | null }>(
    `select c.size, c.note, (select string_agg(line, '' order by witness) from audit.cosignature s where s.size = c.size) as lines
     from audit.checkpoint c
     where c.size in (select max(p.size) from audit.checkpoint p join lateral
         (select recorded_ms from audit.entry where log_index = p.size - 1) e on true
       where ($2::bigint = 0 or p.size < $2) and p.size in (select size from audit.checkpoint order by size desc limit 100000)
       group by e.recorded_ms / 86400000)
     or c.size in (select size from audit.cosignature where $2::bigint = 0 or size < $2)
     order by c.size desc limit $1`,
    [limit, before],
  );
  return rows.map(({ size, note, lines }) => ({ size: Number(size), note: `${note}${lines ?? ''}` }));
}
