import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  type AuditEntry,
  canonicalEntryBytes,
  formatCheckpoint,
  formatSignedNote,
  leafHash,
  noteKeyId,
  rootOfLeaves,
  tilePath,
} from '@countersign/merkle';
import { createIdentity, type Identity, openIdentity, rawPublicKey } from '@countersign/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type LogKey, sha256 } from './log-crypto.ts';
import { verifyFolder } from './verify-export.ts';
import { writeExport } from './write-export.ts';

const root = mkdtempSync(path.join(tmpdir(), 'countersign-dropped-'));
let identity: Identity;
let log: LogKey;
let folders = 0;

beforeAll(async () => {
  identity = await openIdentity(await createIdentity('log', 'log'));
  log = { publicKey: identity.publicKey, name: 'log.example' };
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** 300 entries of one stream; the last one says that the first `until` were dropped. */
function leavesSaying(until: number): Uint8Array[] {
  let prev: string | null = null;
  return Array.from({ length: 300 }, (_, index) => {
    const said =
      index === 299 ? { type: 'retention.dropped' as const, detail: { until } } : { type: 'admin.changed' as const };
    const entry: AuditEntry = {
      ...{ version: 1, index, id: `e${index}`, tenant: 'org', stream: 'custody', stream_seq: index, prev },
      ...{ emitted_ms: 1, recorded_ms: 1, ...said },
    };
    const bytes = canonicalEntryBytes(entry);
    if (!bytes.ok) throw new Error(bytes.error.message);
    prev = Buffer.from(leafHash(sha256, bytes.value)).toString('hex');
    return bytes.value;
  });
}

/** An export of `leaves` without the first `dropped` of them, as it is streamed. */
function* exported(leaves: readonly Uint8Array[], dropped: number): Generator<Uint8Array> {
  const hashes = leaves.map((leaf) => leafHash(sha256, leaf));
  const text = formatCheckpoint({ origin: log.name, size: leaves.length, root: rootOfLeaves(sha256, hashes) });
  const keyId = noteKeyId(sha256, log.name, rawPublicKey(log.publicKey));
  const signature = identity.sign(new TextEncoder().encode(text));
  const base64 = (bytes: Uint8Array | undefined) => Buffer.from(bytes ?? []).toString('base64');
  const line = (value: object) => Buffer.from(`${JSON.stringify(value)}\n`);
  for (const [at, leaf] of leaves.entries())
    yield line(at < dropped ? { leaf_hash: base64(hashes[at]) } : { leaf: base64(leaf) });
  yield line({ checkpoint: formatSignedNote(text, [{ name: log.name, keyId, signature }]) });
}

async function verified(until: number, format: 'tiles' | 'ndjson' | 'both', spoil?: (folder: string) => void) {
  const folder = path.join(root, String(folders++));
  const chunks = (async function* () {
    yield* exported(leavesSaying(until), 256);
  })();
  await writeExport(folder, chunks, format, log);
  spoil?.(folder);
  const { problems, entries } = verifyFolder(folder, log);
  return { entries, problems: problems.map(({ index, code }) => `${code}@${index}`) };
}

test.each(['tiles', 'ndjson', 'both'] as const)(
  'an export as %s without dropped entries verifies with their hashes',
  async (format) => {
    expect(await verified(256, format)).toEqual({ entries: 300, problems: [] });
  },
);

test.each(['tiles', 'ndjson'] as const)('entries that are missing from %s without a word are found', async (format) => {
  expect(await verified(0, format)).toEqual({ entries: 300, problems: ['not_announced@0'] });
});

test('an export whose hashes of dropped entries are gone does not verify', async () => {
  const spoil = (folder: string) => rmSync(path.join(folder, tilePath({ level: 0, index: 0, width: 256 })));
  expect((await verified(256, 'tiles', spoil)).problems).toContain('size@0');
});
