import { Buffer } from 'node:buffer';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { formatLogProof } from '@countersign/merkle';
import { z } from 'zod';
import { EXIT, RefusedError } from '../output.ts';

export const EVIDENCE_FILE = 'evidence.json';
const ENTRIES = 'entries';
const MAX_FILE = 64 * 1_048_576;

const base64 = z.base64().transform((text) => new Uint8Array(Buffer.from(text, 'base64')));
const hex = z
  .string()
  .regex(/^(?:[0-9a-f]{2})*$/)
  .transform((text) => new Uint8Array(Buffer.from(text, 'hex')));

/** Evidence of one call, as the gateway gives it and `audit prove` keeps it. */
export const evidenceSchema = z.strictObject({
  format: z.literal('countersign-evidence/1'),
  call: z.string().min(1).max(256),
  checkpoint: z.string().max(65_536),
  entries: z
    .array(z.strictObject({ index: z.int().min(0), leaf: base64, proof: z.array(base64).max(64) }))
    .min(1)
    .max(2_000),
  /** What an approver was shown, and the call's canonical envelope. */
  view: base64.optional(),
  envelope: base64.optional(),
  receipt: z
    .strictObject({
      callId: z.string(),
      orderId: z.string(),
      host: z.string(),
      callDigest: hex,
      entryId: z.string(),
      index: z.int().min(0).transform(BigInt),
      leafHash: hex,
      decidedBy: z.string(),
      assertionsDigest: hex,
      termsDigest: hex,
      issuer: z.string(),
      signature: base64,
    })
    .optional(),
  /** Exact arguments and their salt, when the reader asked for them. */
  arguments: base64.optional(),
  salt: base64.optional(),
});
export type Evidence = z.output<typeof evidenceSchema>;

/** Writes the evidence: all of it in one file, and each entry beside its proof for other clients of transparency logs. */
export function writeEvidence(folder: string, value: unknown): { readonly entries: number } {
  const evidence = evidenceSchema.parse(value);
  mkdirSync(path.join(folder, ENTRIES), { recursive: true });
  writeFileSync(path.join(folder, EVIDENCE_FILE), `${JSON.stringify(value)}\n`);
  for (const { index, leaf, proof } of evidence.entries) {
    const name = path.join(folder, ENTRIES, String(index));
    writeFileSync(`${name}.json`, leaf);
    writeFileSync(`${name}.tlog-proof`, formatLogProof({ index, proof, checkpoint: evidence.checkpoint }));
  }
  return { entries: evidence.entries.length };
}

/** The file with the evidence at `place`: itself, or in that folder; undefined when there is none. */
export function evidenceFileOf(place: string): string | undefined {
  if (!existsSync(place)) return undefined;
  const file = statSync(place).isDirectory() ? path.join(place, EVIDENCE_FILE) : place;
  return existsSync(file) ? file : undefined;
}

/** Reads the evidence; undefined for what is none. Throws a RefusedError with exit code 2 when it cannot be read at all. */
export function readEvidence(file: string): Evidence | undefined {
  let text: string;
  try {
    if (statSync(file).size > MAX_FILE) return undefined;
    text = readFileSync(file, 'utf8');
  } catch {
    throw new RefusedError(`cannot read \`${file}\``, 'countersign.cli.no_bundle', EXIT.usage);
  }
  try {
    return evidenceSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** Files beside the evidence that are not what it says, by name. */
export function strayFiles(file: string, evidence: Evidence): string[] {
  const folder = path.join(path.dirname(file), ENTRIES);
  if (path.basename(file) !== EVIDENCE_FILE || !existsSync(folder)) return [];
  const expected = new Map<string, Uint8Array>();
  for (const { index, leaf, proof } of evidence.entries) {
    expected.set(`${index}.json`, leaf);
    const text = formatLogProof({ index, proof, checkpoint: evidence.checkpoint });
    expected.set(`${index}.tlog-proof`, new TextEncoder().encode(text));
  }
  const names = new Set([...expected.keys(), ...readdirSync(folder)]);
  return [...names].sort().filter((name) => {
    const bytes = expected.get(name);
    const found = path.join(folder, name);
    return !bytes || !existsSync(found) || Buffer.compare(readFileSync(found), bytes) !== 0;
  });
}
