import { Buffer } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { type FileHandle, open, readFile, rename, rm, truncate } from 'node:fs/promises';
import path from 'node:path';
import { type Clock, FaultError, makeId } from '@countersign/kernel';
import { type JournalLine, parseJournalLine, type StartedLine } from './journal-line.ts';
import { takeJournalLock } from './journal-lock.ts';

const KEEP_MS = 7 * 24 * 3_600_000;
const COMPACT_AT_BYTES = 16 * 1_048_576;
const MAX_ORDERS = 50_000;
/** Outcomes that wait for their acknowledgement are kept in memory too, so that they are bounded. */
const MAX_WAITING_BYTES = 128 * 1_048_576;

/** What the journal knows of one order. */
export type JournalEntry =
  | { readonly state: 'started'; readonly line: StartedLine; readonly backgroundedAtMs?: number }
  | { readonly state: 'finished'; readonly outcome: Uint8Array; readonly atMs: number; readonly expiresAtMs: number }
  | { readonly state: 'acknowledged'; readonly atMs: number; readonly expiresAtMs: number };

/**
 * Memory of a host over restarts: what was started, what came of it, and what the control plane has. Every append is on
 * disk (fdatasync) when its promise resolves. INVARIANT: an order with an entry is never run; an entry is dropped only
 * seven days after it was written and after its order expired.
 */
export type Journal = {
  readonly id: string;
  readonly createdAtMs: number;
  /** Lines that were ever written. */
  readonly written: () => number;
  readonly entry: (orderId: string) => JournalEntry | undefined;
  /** Orders that a process before this one started and did not finish. */
  readonly unfinished: () => readonly Extract<JournalEntry, { state: 'started' }>[];
  /** Orders whose outcome waits for the broker's acknowledgement, oldest first. */
  readonly unacknowledged: () => readonly string[];
  /** True when no further order may start until old ones are acknowledged and age. */
  readonly isFull: () => boolean;
  readonly started: (line: Omit<StartedLine, 'type'>) => Promise<void>;
  /** Notes that a started order goes on in the background. */
  readonly backgrounded: (orderId: string, atMs: number) => Promise<void>;
  readonly finished: (orderId: string, outcome: Uint8Array, atMs: number, expiresAtMs: number) => Promise<void>;
  readonly acknowledged: (orderId: string, atMs: number) => Promise<void>;
  /** Waits for appends under way and gives the lock back. */
  readonly close: () => Promise<void>;
};

const damaged = (file: string, line: number): FaultError =>
  new FaultError(`journal \`${file}\` is damaged at line ${line}; keep a copy and have an operator confirm a new one`, {
    code: 'countersign.runner.journal_damaged',
  });

type Contents = {
  header: { id: string; createdAtMs: number };
  entries: Map<string, JournalEntry>;
  /** Lines that were ever written. */
  written: number;
};

function apply(entries: Map<string, JournalEntry>, line: JournalLine): void {
  if (line.type === 'started') entries.set(line.order_id, { state: 'started', line });
  else if (line.type === 'backgrounded') {
    const entry = entries.get(line.order_id);
    if (entry?.state === 'started') entries.set(line.order_id, { ...entry, backgroundedAtMs: line.at_ms });
  } else if (line.type === 'finished') {
    const { at_ms: atMs, expires_at_ms: expiresAtMs } = line;
    const outcome = new Uint8Array(Buffer.from(line.outcome, 'base64'));
    entries.set(line.order_id, { state: 'finished', outcome, atMs, expiresAtMs });
  } else if (line.type === 'acknowledged') {
    entries.set(line.order_id, { state: 'acknowledged', atMs: line.at_ms, expiresAtMs: line.expires_at_ms });
  }
}

/** Reads a journal. A torn last line was never relied on and is cut off; any other damage is a fault. */
async function readJournal(file: string): Promise<Contents | undefined> {
  if (!existsSync(file)) return undefined;
  const bytes = await readFile(file);
  const end = bytes.lastIndexOf(0x0a) + 1;
  if (end < bytes.length) await truncate(file, end);
  if (end === 0) return undefined;
  const entries = new Map<string, JournalEntry>();
  let header: Contents['header'] | undefined;
  let written = 0;
  for (const [index, text] of bytes
    .toString('utf8', 0, end - 1)
    .split('\n')
    .entries()) {
    const line = parseJournalLine(text);
    if (!line || (index === 0) !== (line.type === 'journal')) throw damaged(file, index + 1);
    if (line.type === 'journal') {
      header = { id: line.id, createdAtMs: line.created_at_ms };
      written = line.before;
    } else {
      apply(entries, line);
      written += 1;
    }
  }
  return header && { header, entries, written };
}

function linesOf(orderId: string, entry: JournalEntry): JournalLine[] {
  if (entry.state === 'started') {
    const { line, backgroundedAtMs } = entry;
    return backgroundedAtMs === undefined
      ? [line]
      : [line, { type: 'backgrounded', order_id: orderId, at_ms: backgroundedAtMs }];
  }
  const times = { at_ms: entry.atMs, expires_at_ms: entry.expiresAtMs };
  if (entry.state === 'acknowledged') return [{ type: 'acknowledged', order_id: orderId, ...times }];
  const outcome = Buffer.from(entry.outcome).toString('base64');
  return [{ type: 'finished', order_id: orderId, outcome, ...times }];
}

async function syncFolder(file: string): Promise<void> {
  const folder = await open(path.dirname(file), 'r');
  await folder.sync().finally(() => folder.close());
}

/** Replaces the file by its living entries: written beside it, synced, renamed over it. */
async function rewrite(file: string, { header, entries, written }: Contents): Promise<number> {
  const living = [...entries].flatMap(([orderId, entry]) => linesOf(orderId, entry));
  const before = Math.max(0, written - living.length);
  const lines: JournalLine[] = [
    { type: 'journal', id: header.id, created_at_ms: header.createdAtMs, before },
    ...living,
  ];
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
  const next = `${file}.next`;
  await rm(next, { force: true });
  const handle = await open(next, 'wx', 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(next, file);
  await syncFolder(file);
  return Buffer.byteLength(text);
}

function dropOld(entries: Map<string, JournalEntry>, nowMs: number): void {
  for (const [orderId, entry] of entries) {
    const old = entry.state === 'acknowledged' && entry.atMs + KEEP_MS < nowMs && entry.expiresAtMs + KEEP_MS < nowMs;
    if (old) entries.delete(orderId);
  }
}

/** Appends one at a time; each is on disk before the next begins. A failed append ends the journal for good. */
class JournalWriter {
  private readonly file: string;
  private readonly contents: Contents;
  private readonly clock: Clock;
  private handle: FileHandle;
  private size: number;
  private compactAt: number;
  private tail: Promise<void> = Promise.resolve();

  constructor(file: string, contents: Contents, opened: { handle: FileHandle; size: number; clock: Clock }) {
    this.file = file;
    this.contents = contents;
    this.handle = opened.handle;
    this.size = opened.size;
    this.clock = opened.clock;
    this.compactAt = COMPACT_AT_BYTES + opened.size;
  }

  append(line: JournalLine): Promise<void> {
    this.tail = this.tail.then(() => this.write(line));
    this.tail.catch(() => undefined);
    return this.tail;
  }

  async close(): Promise<void> {
    await this.tail.catch(() => undefined);
    await this.handle.close();
  }

  private async write(line: JournalLine): Promise<void> {
    const text = `${JSON.stringify(line)}\n`;
    await this.handle.appendFile(text);
    await this.handle.datasync();
    this.size += Buffer.byteLength(text);
    apply(this.contents.entries, line);
    this.contents.written += 1;
    if (this.size >= this.compactAt) await this.compact();
  }

  private async compact(): Promise<void> {
    dropOld(this.contents.entries, this.clock.now());
    this.size = await rewrite(this.file, this.contents);
    this.compactAt = COMPACT_AT_BYTES + this.size;
    await this.handle.close();
    this.handle = await open(this.file, 'a', 0o600);
  }
}

async function loadContents(file: string, clock: Clock): Promise<Contents> {
  const found = await readJournal(file);
  if (found) return found;
  const createdAtMs = clock.now();
  return { header: { id: makeId('jrn', createdAtMs, randomBytes), createdAtMs }, entries: new Map(), written: 0 };
}

/** Opens the journal in `file`, or makes it. Rejects when another runner holds it or the file is damaged. */
export async function openJournal(file: string, clock: Clock): Promise<Journal> {
  const releaseLock = takeJournalLock(`${file}.lock`);
  try {
    const contents = await loadContents(file, clock);
    const { header, entries } = contents;
    const unfinished = [...entries.values()].filter((entry) => entry.state === 'started');
    dropOld(entries, clock.now());
    const size = await rewrite(file, contents);
    const writer = new JournalWriter(file, contents, { handle: await open(file, 'a', 0o600), size, clock });
    return {
      ...header,
      written: () => contents.written,
      entry: (orderId) => entries.get(orderId),
      unfinished: () => unfinished,
      unacknowledged: () => [...entries].flatMap(([orderId, entry]) => (entry.state === 'finished' ? [orderId] : [])),
      isFull: () => entries.size >= MAX_ORDERS || waitingBytes(entries) >= MAX_WAITING_BYTES,
      started: (line) => writer.append({ type: 'started', ...line }),
      backgrounded: (orderId, atMs) => writer.append({ type: 'backgrounded', order_id: orderId, at_ms: atMs }),
      finished: (orderId, outcome, atMs, expiresAtMs) =>
        writer.append({
          type: 'finished',
          order_id: orderId,
          outcome: Buffer.from(outcome).toString('base64'),
          at_ms: atMs,
          expires_at_ms: expiresAtMs,
        }),
      acknowledged: (orderId, atMs) => {
        const expiresAtMs = readExpiry(entries.get(orderId));
        return writer.append({ type: 'acknowledged', order_id: orderId, at_ms: atMs, expires_at_ms: expiresAtMs });
      },
      close: async () => {
        await writer.close();
        releaseLock();
      },
    };
  } catch (error) {
    releaseLock();
    throw error;
  }
}

function waitingBytes(entries: Map<string, JournalEntry>): number {
  let bytes = 0;
  for (const entry of entries.values()) if (entry.state === 'finished') bytes += entry.outcome.length;
  return bytes;
}

function readExpiry(entry: JournalEntry | undefined): number {
  if (!entry) return 0;
  return entry.state === 'started' ? entry.line.expires_at_ms : entry.expiresAtMs;
}
