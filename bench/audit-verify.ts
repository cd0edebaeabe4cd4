import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { TileFolderWriter } from '../apps/cli/src/bundle/tile-folder.ts';
import { verifyFolder } from '../apps/cli/src/bundle/verify-export.ts';
import {
  type AuditEntry,
  canonicalEntryBytes,
  formatCheckpoint,
  formatSignedNote,
  leafHash,
  noteKeyId,
} from '../libs/merkle/src/index.ts';
import { createIdentity, openIdentity, rawPublicKey } from '../libs/protocol/src/index.ts';

/**
 * Offline verification of an export, in entries per second of wall clock: every check of `countersign audit verify`, from
 * files. `node bench/audit-verify.ts [entries] [rounds]`; the goal is 25,000 a second.
 */
const [entries = 100_000, rounds = 5] = process.argv.slice(2).map(Number);
const NAME = 'bench.example/log';
const sha256 = (data: Uint8Array) => new Uint8Array(createHash('sha256').update(data).digest());
const TYPES = ['call.received', 'decision', 'dispatch.sent', 'exec.started', 'exec.finished', 'call.closed'] as const;

/** An entry of about a kilobyte, as the gateway writes them. */
function entryAt(index: number, prev: string | null): AuditEntry {
  const call = `call_${String(Math.floor(index / TYPES.length)).padStart(26, '0')}`;
  const step = index % TYPES.length;
  const type = TYPES[step] ?? 'call.closed';
  return {
    version: 1,
    index,
    id: `ent_${call}_${type}_1`,
    tenant: NAME,
    stream: call,
    stream_seq: step,
    prev,
    type,
    emitted_ms: 1_700_000_000_000 + index,
    recorded_ms: 1_700_000_000_000 + index,
    call,
    session: 'ses_0190c7a0000070008000000000000001',
    trace: '4bf92f3577b34da6a3ce929d0e0e4736',
    host: 'build-host-7',
    agent: { id: 'agent-billing', on_behalf_of: 'ann@example.com', model: 'provider/model-2026' },
    tool: {
      name: 'bash',
      action: 'execute',
      resource: '/srv/projects/billing',
      scope: 'project',
      args_commitment: 'a'.repeat(64),
    },
    decision: {
      effect: 'allow',
      decided_by: 'rule',
      rules: ['managed/allow/12', 'project/allow/3'],
      policy_digest: 'b'.repeat(64),
      reason: 'the command only reads below the project; the rule of the team allows it',
    },
    detail: {
      state: 'done',
      order: `ord_${call}`,
      backend: 'bubblewrap',
      violations: [],
      code: '',
      note: 'x'.repeat(120),
    },
  };
}

const identity = await openIdentity(await createIdentity('log', 'log'));
const root = mkdtempSync(path.join(tmpdir(), 'countersign-bench-verify-'));
const folders = { tiles: path.join(root, 'tiles'), lines: path.join(root, 'lines') };
for (const folder of Object.values(folders)) mkdirSync(folder);
const writer = new TileFolderWriter(folders.tiles, true);
const lines: string[] = [];
let [prev, bytesTotal]: [string | null, number] = [null, 0];
const stack: Uint8Array[] = [];
let size = 0;
for (let index = 0; index < entries; index += 1) {
  const bytes = canonicalEntryBytes(entryAt(index, index % TYPES.length === 0 ? null : prev));
  if (!bytes.ok) throw new Error(bytes.error.message);
  const leaf = leafHash(sha256, bytes.value);
  prev = Buffer.from(leaf).toString('hex');
  bytesTotal += bytes.value.length;
  writer.add(bytes.value);
  lines.push(`{"leaf":"${Buffer.from(bytes.value).toString('base64')}"}\n`);
  let node = leaf;
  for (let at = size; at % 2 === 1; at = (at - 1) / 2)
    node = sha256(Buffer.concat([Uint8Array.of(1), stack.pop() ?? new Uint8Array(), node]));
  stack.push(node);
  size += 1;
}
const top = stack.reduceRight((right, left) => sha256(Buffer.concat([Uint8Array.of(1), left, right])));
const text = formatCheckpoint({ origin: NAME, size, root: top });
const keyId = noteKeyId(sha256, NAME, rawPublicKey(identity.publicKey));
const note = formatSignedNote(text, [{ name: NAME, keyId, signature: identity.sign(new TextEncoder().encode(text)) }]);
writer.end(note);
writeFileSync(path.join(folders.lines, 'log.ndjson'), `${lines.join('')}${JSON.stringify({ checkpoint: note })}\n`);

const log = { publicKey: identity.publicKey, name: NAME };
const rates: Record<string, number[]> = { tiles: [], lines: [] };
for (let round = 0; round < rounds; round += 1) {
  for (const [name, folder] of Object.entries(folders)) {
    const [before, cpu] = [performance.now(), process.cpuUsage()];
    const { problems, entries: read } = verifyFolder(folder, log);
    const seconds = (performance.now() - before) / 1_000;
    const used = process.cpuUsage(cpu);
    if (problems.length > 0 || read !== entries) throw new Error(`not clean: ${JSON.stringify(problems[0])}`);
    rates[name]?.push(entries / seconds);
    const cpuUs = (used.user + used.system) / entries;
    process.stdout.write(`${name}: ${Math.round(entries / seconds)} entries/s, ${cpuUs.toFixed(1)} µs CPU each\n`);
  }
}
for (const [name, values] of Object.entries(rates)) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.round(sorted[Math.floor(sorted.length / 2)] ?? 0);
  process.stdout.write(
    `${name}: median ${middle} entries/s of ${rounds} rounds (${entries} entries of ${Math.round(bytesTotal / entries)} bytes)\n`,
  );
}
rmSync(root, { recursive: true, force: true });
