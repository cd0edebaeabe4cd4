import { Buffer } from 'node:buffer';
import { spawn } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import type { Agent } from '@countersign/agent';
import {
  type AuditEntry,
  canonicalEntryBytes,
  decodeEntryBundle,
  encodeEntryBundle,
  entryBundlePath,
  formatCheckpoint,
  formatSignedNote,
  leafHash,
  noteKeyId,
  rootOfLeaves,
} from '@countersign/merkle';
import { createIdentity, type Identity, openIdentity, rawPublicKey } from '@countersign/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { evidenceSchema } from '../bundle/evidence.ts';
import { type LogKey, sha256 } from '../bundle/log-crypto.ts';
import { TileFolderWriter } from '../bundle/tile-folder.ts';
import { verifyEvidence } from '../bundle/verify-evidence.ts';
import { verifyFolder } from '../bundle/verify-export.ts';
import { approveWaiting } from '../embedded/check.ts';
import { logNameOf } from '../embedded/config-files.ts';
import { installationPath } from '../embedded/data-folder.ts';
import { enrolSamples } from '../embedded/enrol.ts';
import { type Installation, startInstallation } from '../embedded/installation.ts';
import { runSamples, sampleAgent } from '../embedded/samples.ts';

const root = mkdtempSync(path.join(process.getuid?.() === 0 ? '/var/lib' : homedir(), 'countersign-audit-'));
const clean = path.join(root, 'clean');
let installation: Installation;
let agent: Agent;
let logIdentity: Identity;
let stranger: Identity;
let log: LogKey;
let approvedCall = '';
let leaves: Uint8Array[] = [];
let entries: AuditEntry[] = [];
let checkpoint = '';

type Ended = { readonly status: number | null; readonly out: string; readonly err: string };

function countersign(...args: string[]): Promise<Ended> {
  const main = path.join(installationPath(), 'apps/cli/src/main.ts');
  const child = spawn(process.execPath, [main, '--data', root, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  const [out, err]: [Buffer[], Buffer[]] = [[], []];
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => err.push(chunk));
  return new Promise((resolve) =>
    child.on('close', (status) =>
      resolve({ status, out: Buffer.concat(out).toString(), err: Buffer.concat(err).toString() }),
    ),
  );
}

beforeAll(async () => {
  chmodSync(root, 0o711);
  installation = await startInstallation(root, () => undefined);
  await enrolSamples(installation);
  agent = await sampleAgent(installation);
  const { waiting } = await runSamples(installation, agent, () => undefined);
  await approveWaiting(installation, waiting);
  approvedCall = waiting.callId;
  logIdentity = await openIdentity(installation.keys.identities.log);
  stranger = await openIdentity(await createIdentity('log', 'log'));
  log = { publicKey: logIdentity.publicKey, name: logNameOf(installation.data) };
  const exported = await countersign('audit', 'export', '--out', clean);
  if (exported.status !== 0) throw new Error(exported.err);
  checkpoint = readFileSync(path.join(clean, 'checkpoint'), 'utf8');
  const size = Number(checkpoint.split('\n')[1]);
  leaves = decodeEntryBundle(readFileSync(path.join(clean, entryBundlePath(0, size)))).leaves;
  entries = leaves.map((leaf) => JSON.parse(Buffer.from(leaf).toString()) as AuditEntry);
}, 120_000);

afterAll(async () => {
  await agent?.close();
  await installation?.stop();
  rmSync(root, { recursive: true, force: true });
}, 60_000);

function signed(of: readonly Uint8Array[], by: Identity = logIdentity): string {
  const hash = rootOfLeaves(
    sha256,
    of.map((leaf) => leafHash(sha256, leaf)),
  );
  const text = formatCheckpoint({ origin: log.name, size: of.length, root: hash });
  const keyId = noteKeyId(sha256, log.name, rawPublicKey(by.publicKey));
  return formatSignedNote(text, [{ name: log.name, keyId, signature: by.sign(new TextEncoder().encode(text)) }]);
}

let folders = 0;
function newFolder(): string {
  folders += 1;
  const folder = path.join(root, `t${folders}`);
  mkdirSync(folder);
  return folder;
}

/** An export whose tiles, but not its checkpoint, were made anew. */
function rebuilt(of: readonly Uint8Array[], note = checkpoint): string {
  const folder = newFolder();
  const writer = new TileFolderWriter(folder, true);
  for (const leaf of of) writer.add(leaf);
  writer.end(note);
  return folder;
}

/** The clean export with changed files. */
function edited(change: (folder: string) => void): string {
  const folder = newFolder();
  cpSync(clean, folder, { recursive: true });
  change(folder);
  return folder;
}

const bundleFile = (folder: string) => path.join(folder, entryBundlePath(0, leaves.length));
/** The clean export with another entry bundle and the old hash tiles. */
const withLeaves = (of: readonly Uint8Array[]) =>
  edited((folder) => writeFileSync(bundleFile(folder), encodeEntryBundle(of)));

function lines(of: readonly Uint8Array[], note: string): string {
  const folder = newFolder();
  const text = of.map((leaf) => `${JSON.stringify({ leaf: Buffer.from(leaf).toString('base64') })}\n`);
  writeFileSync(path.join(folder, 'log.ndjson'), `${text.join('')}${JSON.stringify({ checkpoint: note })}\n`);
  return folder;
}

/** The clean log as lines, changed. */
function editedLines(change: (text: string[]) => void): string {
  const folder = lines(leaves, checkpoint);
  const file = path.join(folder, 'log.ndjson');
  const text = readFileSync(file, 'utf8').split('\n');
  change(text);
  writeFileSync(file, text.join('\n'));
  return folder;
}

const replaced = (index: number, change: (text: string) => string): Uint8Array[] =>
  leaves.with(index, new TextEncoder().encode(change(Buffer.from(leaves[index] ?? []).toString())));

/** Entries numbered and chained anew, as somebody with the whole log could do it. */
function recomputed(of: readonly AuditEntry[]): Uint8Array[] {
  const last = new Map<string, { seq: number; leaf: string }>();
  return of.map((entry, index) => {
    const before = last.get(entry.stream);
    const fresh = { ...entry, index, stream_seq: before ? before.seq + 1 : 0, prev: before?.leaf ?? null };
    const bytes = canonicalEntryBytes(fresh);
    if (!bytes.ok) throw new Error(bytes.error.message);
    last.set(entry.stream, { seq: fresh.stream_seq, leaf: Buffer.from(leafHash(sha256, bytes.value)).toString('hex') });
    return bytes.value;
  });
}

const found = (folder: string, options = {}) =>
  verifyFolder(folder, log, options).problems.map(({ code, index }) => `${code}@${index}`);
const at = (type: string, call = approvedCall) =>
  entries.findIndex((entry) => entry.type === type && entry.call === call);
const decisionIndex = () => at('decision');
const lie = (entry: AuditEntry): AuditEntry =>
  entry.index === decisionIndex() ? { ...entry, decision: { ...entry.decision, reason: 'another reason' } } : entry;
const size = () => leaves.length;

/** What is done to a real export, and what must be found, and where. */
const TAMPERINGS: readonly [string, () => string[], () => string[]][] = [
  [
    'one effect changed',
    () => found(withLeaves(replaced(decisionIndex(), (text) => text.replace('"allow"', '"deny"')))),
    () => [`changed@${decisionIndex()}`, `unchained@${decisionIndex()}`],
  ],
  [
    'one effect changed and the tiles made anew',
    () => found(rebuilt(replaced(decisionIndex(), (text) => text.replace('"allow"', '"deny"')))),
    () => [`unchained@${decisionIndex()}`, 'root@0'],
  ],
  [
    'the last entry changed',
    () => found(withLeaves(replaced(size() - 1, (text) => text.replace(/"emitted_ms":\d/, '"emitted_ms":9')))),
    () => [`changed@${size() - 1}`],
  ],
  ['an entry removed', () => found(rebuilt(leaves.toSpliced(5, 1))), () => ['index@5', `size@${size() - 1}`]],
  [
    'an entry inserted',
    () => found(rebuilt(leaves.toSpliced(5, 0, leaves[5] as Uint8Array))),
    () => ['index@6', 'duplicate_id@6', `size@${size()}`],
  ],
  [
    'two entries swapped',
    () => found(withLeaves(leaves.with(5, leaves[6] as Uint8Array).with(6, leaves[5] as Uint8Array))),
    () => ['index@5', 'index@6', 'changed@5', 'changed@6'],
  ],
  ['a tail of three cut', () => found(rebuilt(leaves.slice(0, -3))), () => [`size@${size() - 3}`]],
  [
    'a tail cut and signed again, against the kept checkpoint',
    () => found(rebuilt(leaves.slice(0, -3), signed(leaves.slice(0, -3))), { olderCheckpoint: checkpoint }),
    () => [`inconsistent@${size() - 3}`],
  ],
  [
    'a whole stream removed with indexes rewritten',
    () => found(rebuilt(recomputed(entries.filter(({ stream }) => stream !== approvedCall)))),
    () => [`size@${entries.filter(({ stream }) => stream !== approvedCall).length}`],
  ],
  [
    'a call removed, all signed again, against the kept checkpoint',
    () => {
      const kept = recomputed(entries.filter(({ call }) => call !== approvedCall));
      return found(rebuilt(kept, signed(kept)), { olderCheckpoint: checkpoint });
    },
    () => [`inconsistent@${entries.filter(({ call }) => call !== approvedCall).length}`],
  ],
  [
    'all recomputed under another key',
    () => {
      const all = recomputed(entries.map(lie));
      return found(rebuilt(all, signed(all, stranger)));
    },
    () => ['unsigned@null'],
  ],
  ['all recomputed and the old checkpoint kept', () => found(rebuilt(recomputed(entries.map(lie)))), () => ['root@0']],
  [
    'all recomputed and signed again, with the checkpoints of before beside it',
    () => {
      const all = recomputed(entries.map(lie));
      return found(
        edited((folder) => {
          rmSync(path.join(folder, 'tile'), { recursive: true });
          cpSync(rebuilt(all, signed(all)), folder, { recursive: true });
          writeFileSync(
            path.join(folder, 'checkpoints.ndjson'),
            [leaves.slice(0, 4), leaves].map((of) => `${JSON.stringify({ checkpoint: signed(of) })}\n`).join(''),
          );
        }),
      );
    },
    () => ['inconsistent@4'],
  ],
  [
    'a fork of the same size under the same key',
    () => {
      const all = recomputed(entries.map(lie));
      return found(rebuilt(all, signed(all)), { olderCheckpoint: checkpoint });
    },
    () => ['inconsistent@0'],
  ],
  [
    'an index used twice',
    () => found(withLeaves(replaced(7, (text) => text.replace('"index":7', '"index":6')))),
    () => ['index@7'],
  ],
  [
    'the streams of two calls swapped',
    () =>
      found(
        withLeaves(
          leaves.map((leaf) =>
            new TextEncoder().encode(
              Buffer.from(leaf).toString().replace(`"stream":"${approvedCall}"`, '"stream":"audit"'),
            ),
          ),
        ),
      ),
    () => [`changed@${at('call.received')}`, `stream_seq@${at('call.received')}`],
  ],
  [
    "a checkpoint's size changed",
    () =>
      found(
        edited((folder) =>
          writeFileSync(path.join(folder, 'checkpoint'), checkpoint.replace(`\n${size()}\n`, `\n${size() + 1}\n`)),
        ),
      ),
    () => ['unsigned@null'],
  ],
  [
    'a note with seventy signatures',
    () =>
      found(
        edited((folder) =>
          writeFileSync(
            path.join(folder, 'checkpoint'),
            checkpoint + (checkpoint.split('\n').at(-2) ?? '').concat('\n').repeat(70),
          ),
        ),
      ),
    () => ['malformed_note@null'],
  ],
  [
    'a second signature by the same key that does not verify',
    () =>
      found(
        edited((folder) =>
          writeFileSync(
            path.join(folder, 'checkpoint'),
            `${checkpoint}${signed(leaves.slice(0, 2)).split('\n').at(-2) ?? ''}\n`,
          ),
        ),
      ),
    () => ['unsigned@null'],
  ],
  [
    'the key of another log under the same name',
    () =>
      verifyFolder(clean, { ...log, publicKey: stranger.publicKey }).problems.map(
        ({ code, index }) => `${code}@${index}`,
      ),
    () => ['unsigned@null', 'other_key@null'],
  ],
  [
    'the right key under another name',
    () =>
      verifyFolder(clean, { ...log, name: 'countersign/other' }).problems.map(({ code, index }) => `${code}@${index}`),
    () => ['unsigned@null', 'other_key@null'],
  ],
  [
    'a bundle cut in the middle of an entry',
    () => found(edited((folder) => truncateSync(bundleFile(folder), 2_000))),
    () => [expect.stringMatching(/^bundle@\d+$/)],
  ],
  [
    'a hash tile cut',
    () => found(edited((folder) => truncateSync(path.join(folder, `tile/0/000.p/${size()}`), 33))),
    () => ['tile@0'],
  ],
  [
    'a hash tile removed',
    () => found(edited((folder) => rmSync(path.join(folder, `tile/0/000.p/${size()}`)))),
    () => ['tile@0'],
  ],
  [
    'one hash of a tile changed',
    () =>
      found(
        edited((folder) => {
          const file = path.join(folder, `tile/0/000.p/${size()}`);
          const bytes = readFileSync(file);
          bytes[3 * 32] = (bytes[3 * 32] ?? 0) ^ 1;
          writeFileSync(file, bytes);
        }),
      ),
    () => ['changed@3'],
  ],
  [
    'every entry removed',
    () => found(edited((folder) => rmSync(path.join(folder, 'tile/entries'), { recursive: true }))),
    () => ['size@0'],
  ],
  [
    'two logs in one folder',
    () =>
      found(
        edited((folder) =>
          cpSync(
            path.join(lines(leaves.slice(0, 4), signed(leaves.slice(0, 4))), 'log.ndjson'),
            path.join(folder, 'log.ndjson'),
          ),
        ),
      ),
    () => ['mixed@null'],
  ],
  [
    'a decision taken twice, all signed again',
    () => {
      const all = recomputed(
        entries.flatMap((entry) =>
          entry.index === decisionIndex() ? [entry, { ...entry, id: 'ent_again' }] : [entry],
        ),
      );
      return found(rebuilt(all, signed(all)));
    },
    () => [`second_decision@${decisionIndex() + 1}`],
  ],
  [
    'a `call.closed` doubled, all signed again',
    () => {
      const all = recomputed(
        entries.flatMap((entry) =>
          entry.index === at('call.closed') ? [entry, { ...entry, id: 'ent_again' }] : [entry],
        ),
      );
      return found(rebuilt(all, signed(all)));
    },
    () => [`after_close@${at('call.closed') + 1}`],
  ],
  [
    'a decision removed, all signed again',
    () => {
      const all = recomputed(entries.filter(({ index }) => index !== decisionIndex()));
      return found(rebuilt(all, signed(all)));
    },
    () => [`effect_without_decision@${decisionIndex()}`],
  ],
  [
    'other arguments executed, all signed again',
    () => {
      const finished = at('exec.finished');
      const all = recomputed(
        entries.map((entry) =>
          entry.index === finished ? { ...entry, detail: { ...entry.detail, executed: '00'.repeat(32) } } : entry,
        ),
      );
      return found(rebuilt(all, signed(all)));
    },
    () => [`executed_differs@${at('exec.finished')}`],
  ],
  [
    'half a surrogate pair',
    () => found(withLeaves(replaced(3, (text) => text.replace('"tenant":"', '"tenant":"\\ud800')))),
    () => ['not_canonical@3', 'changed@3'],
  ],
  [
    'deep JSON',
    () => found(withLeaves(replaced(3, () => '['.repeat(16_000) + ']'.repeat(16_000)))),
    () => ['bad_field@3', 'changed@3'],
  ],
  [
    'an entry beyond the limit',
    () => found(withLeaves(replaced(3, (text) => text.replace('"tenant":"', `"tenant":"${'x'.repeat(33_000)}`)))),
    () => ['too_large@3', 'changed@3'],
  ],
  [
    'a key written twice',
    () => found(withLeaves(replaced(3, (text) => text.replace('{', '{"emitted_ms":1,')))),
    () => ['not_canonical@3', 'changed@3'],
  ],
  [
    'U+2028 and NUL in a line',
    () => found(editedLines((text) => text.splice(3, 1, `\u2028\0${text[3]}`))),
    () => ['not_json@3'],
  ],
  [
    'a line of ten megabytes',
    () => found(editedLines((text) => text.splice(3, 1, 'x'.repeat(10_000_000)))),
    () => ['too_large@3'],
  ],
  [
    'a line that is split in two',
    () => found(editedLines((text) => text.splice(3, 1, text[3]?.slice(0, 90) ?? '', text[3]?.slice(90) ?? ''))),
    () => ['not_json@3', `size@${size()}`],
  ],
  [
    'a checkpoint line in the middle',
    () => found(editedLines((text) => text.splice(3, 0, JSON.stringify({ checkpoint: signed(leaves.slice(0, 3)) })))),
    () => ['bad_field@3'],
  ],
  [
    'the checkpoint line removed',
    () => found(editedLines((text) => text.splice(-2, 2))),
    () => ['malformed_note@null'],
  ],
];

describe('tampering with a real export is found at its place', () => {
  test.each(TAMPERINGS)('%s', (_name, tamper, expected) => {
    expect(tamper()).toEqual(expect.arrayContaining(expected()));
  });

  test('and the same export is clean as tiles and as lines, also beside an older checkpoint and with text of any kind', () => {
    expect(found(clean, { olderCheckpoint: signed(leaves.slice(0, 9)) })).toEqual([]);
    expect(found(lines(leaves, checkpoint))).toEqual([]);
    const strange = '\0 \u2028 \n \u{1f600} \\ud800 "';
    const all = recomputed(entries.map((entry) => ({ ...entry, detail: { ...entry.detail, note: strange } })));
    expect(found(rebuilt(all, signed(all)))).toEqual([]);
  });
});

describe('the commands', () => {
  test('verify ends with 0 for a clean log, 1 for damage, 2 without bundle or key', async () => {
    const ends = await Promise.all([
      countersign('audit', 'verify', clean, '--online'),
      countersign('audit', 'verify', clean, '--key', log.publicKey, '--log-name', log.name),
      countersign('audit', 'verify', withLeaves(replaced(4, (text) => `${text} `))),
      countersign('audit', 'verify', path.join(root, 'nothing')),
      countersign('audit', 'verify', clean, '--key', 'UNKNOWN', '--log-name', log.name),
      countersign('--data', path.join(root, 'nowhere'), 'audit', 'verify', clean),
      countersign('audit', 'fsck'),
    ]);
    expect(ends.map(({ status }) => status)).toEqual([0, 0, 1, 2, 2, 2, 0]);
    expect(ends[2]?.out).toMatch(/^entry 4: changed: /m);
    expect(ends[0]?.out).toMatch(/\d+ entries, \d+ calls open, 0 problems\ndatabase: 0 problems$/m);
    // The checkpoints beside the first export were stored by the service.
    expect(readFileSync(path.join(clean, 'checkpoints.ndjson'), 'utf8')).toContain(log.name);
  }, 60_000);

  test('prove writes evidence that verifies anywhere, and each change of it is found', async () => {
    const folder = path.join(root, 'evidence');
    const proven = await countersign('audit', 'prove', approvedCall, '--out', folder, '--with-arguments');
    expect([proven.status, proven.err]).toEqual([0, '']);
    const verify = async (place: string) => {
      const ended = await countersign(
        '--json',
        'audit',
        'verify',
        place,
        '--key',
        log.publicKey,
        '--log-name',
        log.name,
      );
      const { problems } = JSON.parse(ended.out) as { problems: { code: string; index: number | null }[] };
      return [ended.status, ...problems.map(({ code }) => code)];
    };
    expect(await verify(folder)).toEqual([0]);
    const text = readFileSync(path.join(folder, 'evidence.json'), 'utf8');
    const evidence = JSON.parse(text) as Record<string, unknown> & { entries: { leaf: string }[] };
    const types = evidence.entries.map(
      ({ leaf }) => (JSON.parse(Buffer.from(leaf, 'base64').toString()) as AuditEntry).type,
    );
    expect(types).toEqual(
      expect.arrayContaining([
        'call.received',
        'approval.answered',
        'decision',
        'dispatch.sent',
        'exec.finished',
        'call.closed',
        'audit.read',
      ]),
    );
    expect(Buffer.from(String(evidence.arguments), 'base64').toString()).toContain('approved.txt');
    const changes: [object, string][] = [
      [{ entries: evidence.entries.toSpliced(2, 1) }, 'stream_seq'],
      [{ entries: evidence.entries.slice(1) }, 'not_received'],
      [
        { entries: evidence.entries.map((entry, index) => (index === 1 ? { ...entry, index: 0 } : entry)) },
        'not_included',
      ],
      [{ view: Buffer.from('{}').toString('base64') }, 'view_differs'],
      [{ view: undefined }, 'view_differs'],
      [{ arguments: Buffer.from('{}').toString('base64') }, 'arguments_differ'],
      [{ receipt: undefined }, 'receipt'],
      [{ receipt: { ...(evidence.receipt as object), host: 'other' } }, 'receipt'],
      [{ checkpoint: signed(leaves, stranger) }, 'unsigned'],
      [{ call: 'call_other' }, 'other_call'],
      [{ format: 'x' }, 'malformed_evidence'],
    ];
    for (const [change, code] of changes) {
      const parsed = evidenceSchema.safeParse(JSON.parse(JSON.stringify({ ...evidence, ...change })));
      const problems = parsed.success ? verifyEvidence(parsed.data, log).problems : [{ code: 'malformed_evidence' }];
      expect([code, problems.map((problem) => problem.code)]).toEqual([code, expect.arrayContaining([code])]);
    }
    writeFileSync(path.join(root, 'none.json'), '{"format":"x"}');
    expect(await verify(path.join(root, 'none.json'))).toEqual([1, 'malformed_evidence']);
    const entryFile = readdirSync(path.join(folder, 'entries')).find((name) => name.endsWith('.tlog-proof')) ?? '';
    writeFileSync(path.join(folder, 'entries', entryFile), 'c2sp.org/tlog-proof@v1\n');
    expect(await verify(folder)).toEqual([1, 'stray_file']);
  }, 120_000);

  test('query answers as table, JSON and CSV, over pages, and keeps what was asked', async () => {
    const table = await countersign('audit', 'query', 'call', '--filter', `call=${approvedCall}`);
    expect([table.status, table.err]).toEqual([0, '']);
    expect(table.out).toContain('approval.answered');
    const saved = await countersign(
      '--json',
      'audit',
      'query',
      'approvals',
      '--filter',
      'approver=local-approver',
      '--save',
      'mine',
    );
    expect(JSON.parse(saved.out)).toMatchObject({ summary: { answers: 1 } });
    const again = await countersign('--json', 'audit', 'query', 'mine', '--saved');
    expect((JSON.parse(again.out) as { rows: unknown[] }).rows.length).toBe(1);
    const csv = await countersign('audit', 'query', 'entries', '--csv', '--all', '--limit', '7');
    expect(csv.out.split('\r\n').length).toBeGreaterThan(size());
    expect(csv.out.split('\r\n').filter((line) => line.startsWith('log_index,')).length).toBe(1);
    const wrong = await countersign('audit', 'query', 'nonsense');
    expect([wrong.status, wrong.err.includes('there are: entries')]).toEqual([1, true]);
  }, 60_000);

  test('a hold keeps from erasing; what was erased is told by verify, and cannot be read any more', async () => {
    const scope = 'agent:sample';
    const why = ['--reason', 'asked for by the person'];
    const run = async (...args: string[]) => (await countersign('audit', ...args)).out;
    expect(await run('hold', 'set', scope, ...why)).toMatch(/^agent:sample {2}held by local-operator/);
    expect((await countersign('audit', 'erase', scope, ...why)).err).toContain('countersign.gateway.held');
    expect(await run('hold', 'release', scope, ...why)).toBe('nothing is held\n');
    expect(await run('erase', scope, ...why)).toMatch(/^erased 2 sessions/);
    expect(await run('retention')).toMatch(/^would end the payloads of 0 sessions/);
    await run('export', '--out', path.join(root, 'erased'));
    expect(await run('verify', path.join(root, 'erased'))).toMatch(/payloads erased: agent:sample.* 0 problems/s);
  }, 60_000);
});
