import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openJournal } from './journal.ts';

const DAY_MS = 24 * 3_600_000;
let folder = '';
let file = '';
let nowMs = 1_000_000;
const clock = { now: () => nowMs };

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'journal-'));
  file = path.join(folder, 'journal.jsonl');
  nowMs = 1_000_000;
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const start = (orderId: string, expiresAtMs = 2_000_000) => ({
  order_id: orderId,
  call_id: 'call_1',
  call_digest: 'ab'.repeat(32),
  at_ms: nowMs,
  expires_at_ms: expiresAtMs,
});

test('a journal keeps its id and creation time over restarts', async () => {
  const first = await openJournal(file, clock);
  await first.close();
  nowMs += 5_000;
  const second = await openJournal(file, clock);
  expect({ id: second.id, at: second.createdAtMs }).toEqual({ id: first.id, at: 1_000_000 });
  expect(statSync(file).mode & 0o777).toBe(0o600);
  await second.close();
});

test('started, finished and acknowledged survive a restart', async () => {
  const first = await openJournal(file, clock);
  for (const id of ['ord_1', 'ord_2', 'ord_3']) await first.started(start(id));
  await first.finished('ord_2', new Uint8Array([1, 2]), nowMs, 2_000_000);
  await first.finished('ord_3', new Uint8Array([3]), nowMs, 2_000_000);
  await first.acknowledged('ord_3', nowMs);
  await first.close();
  const second = await openJournal(file, clock);
  expect(second.unfinished().map(({ line }) => line.order_id)).toEqual(['ord_1']);
  expect(second.unacknowledged()).toEqual(['ord_2']);
  expect(second.entry('ord_2')).toMatchObject({ state: 'finished', outcome: new Uint8Array([1, 2]) });
  expect(second.entry('ord_3')).toEqual({ state: 'acknowledged', atMs: nowMs, expiresAtMs: 2_000_000 });
  await second.close();
});

test('a line is in the file when its promise resolves', async () => {
  const journal = await openJournal(file, clock);
  await journal.started(start('ord_1'));
  expect(readFileSync(file, 'utf8')).toContain('"order_id":"ord_1"');
  await journal.close();
});

test('a torn last line is cut off and the rest is kept', async () => {
  const first = await openJournal(file, clock);
  await first.started(start('ord_1'));
  await first.close();
  appendFileSync(file, '{"type":"started","order_id":"ord_2","call');
  const second = await openJournal(file, clock);
  expect(second.unfinished().map(({ line }) => line.order_id)).toEqual(['ord_1']);
  await second.started(start('ord_3'));
  await second.close();
  const third = await openJournal(file, clock);
  expect(third.unfinished().map(({ line }) => line.order_id)).toEqual(['ord_1', 'ord_3']);
  await third.close();
});

test('damage before the last line is a fault, not a fresh journal', async () => {
  const first = await openJournal(file, clock);
  await first.started(start('ord_1'));
  await first.close();
  const lines = readFileSync(file, 'utf8').split('\n');
  writeFileSync(file, [lines[0], 'garbage', ...lines.slice(1)].join('\n'));
  await expect(openJournal(file, clock)).rejects.toThrow(/damaged at line 2/);
  expect(readFileSync(file, 'utf8')).toContain('garbage');
});

test('an acknowledged order is forgotten only seven days after it was written and its order expired', async () => {
  const first = await openJournal(file, clock);
  await first.started(start('ord_1', nowMs + 3 * DAY_MS));
  await first.finished('ord_1', new Uint8Array(), nowMs, nowMs + 3 * DAY_MS);
  await first.acknowledged('ord_1', nowMs);
  await first.close();
  nowMs += 9 * DAY_MS;
  const second = await openJournal(file, clock);
  expect(second.entry('ord_1')?.state).toBe('acknowledged');
  await second.close();
  nowMs += 2 * DAY_MS;
  const third = await openJournal(file, clock);
  expect(third.entry('ord_1')).toBeUndefined();
  await third.close();
});

test('results that the control plane has are compacted away and the file stays bounded', async () => {
  const journal = await openJournal(file, clock);
  const outcome = new Uint8Array(1_000_000);
  for (let index = 0; index < 40; index += 1) {
    await journal.started(start(`ord_${index}`));
    await journal.finished(`ord_${index}`, outcome, nowMs, 2_000_000);
    await journal.acknowledged(`ord_${index}`, nowMs);
  }
  expect(statSync(file).size).toBeLessThan(20_000_000);
  await journal.close();
  const again = await openJournal(file, clock);
  expect(statSync(file).size).toBeLessThan(10_000);
  expect(again.entry('ord_0')?.state).toBe('acknowledged');
  await again.close();
});

test('a second runner cannot open a journal that is in use', async () => {
  const first = await openJournal(file, clock);
  await expect(openJournal(file, clock)).rejects.toThrow(/another runner holds/);
  await first.close();
  const second = await openJournal(file, clock);
  await second.close();
});

test('the lock of a dead process is taken over, also when its id was reused', async () => {
  for (const text of ['999999999 1', `${process.pid} 1`, 'rubbish']) {
    writeFileSync(`${file}.lock`, text);
    const journal = await openJournal(file, clock);
    await journal.close();
  }
});

test('counts every line that was ever written, over restarts and after lines were dropped', async () => {
  const first = await openJournal(file, clock);
  await first.started(start('ord_1'));
  await first.finished('ord_1', new Uint8Array([1]), nowMs, 2_000_000);
  await first.acknowledged('ord_1', nowMs);
  expect(first.written()).toBe(3);
  await first.close();
  nowMs += 30 * DAY_MS;
  const second = await openJournal(file, clock);
  expect([second.entry('ord_1'), second.written()]).toEqual([undefined, 3]);
  await second.started(start('ord_2'));
  await second.close();
  const third = await openJournal(file, clock);
  expect(third.written()).toBe(4);
  await third.close();
});
