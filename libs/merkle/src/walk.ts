import { type AuditEntry, parseEntry } from './entry.ts';
import { checkStory, newStories, type Stories } from './story.ts';
import { equalBytes, nodeHash, type Sha256 } from './tree.ts';

/** Something wrong with a log. `index` is the entry at fault, or null for the log as a whole. */
export type Problem = {
  readonly index: number | null;
  /** With it the fault is somewhere from `index` to before `until`. */
  readonly until?: number;
  readonly code: string;
  readonly message: string;
};

/** More problems than this are only counted. */
export const MAX_PROBLEMS = 1_000;

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));
export const hex = (bytes: Uint8Array): string => {
  let text = '';
  for (const byte of bytes) text += HEX[byte];
  return text;
};

/** Payloads or entries that were ended before or at their time, as the log says it. */
export type Ended = {
  readonly index: number;
  readonly type: 'erasure.done' | 'retention.dropped';
  readonly scope: string;
  readonly subject: string;
  readonly sessions: number;
};

/** More of them than this are not listed. */
const MAX_ENDED = 10_000;

function endedOf({ index, type, detail }: AuditEntry): Ended | undefined {
  if (type !== 'erasure.done' && type !== 'retention.dropped') return undefined;
  const text = (name: string) => (typeof detail?.[name] === 'string' ? (detail[name] as string) : '');
  return { index, type, scope: text('scope'), subject: text('subject'), sessions: Number(detail?.sessions ?? 0) };
}

type Last = { readonly index: number; readonly seq: number; readonly leaf: string };

/** A check of the caller's own: told each entry in order, it says what is wrong with it. */
export type EntryCheck = (entry: AuditEntry) => readonly { readonly code: string; readonly message: string }[];
const NOTHING: ReturnType<EntryCheck> = [];

/** Reads a log from its beginning and keeps what is wrong with it. */
export class Walk {
  readonly problems: Problem[] = [];
  readonly stories: Stories = newStories();
  /** What the log says was erased or dropped. */
  readonly ended: Ended[] = [];
  /** Problems beyond the limit. */
  uncounted = 0;
  readonly #sha256: Sha256;
  readonly #streams = new Map<string, Last>();
  readonly #ids = new Set<string>();
  readonly #stack: Uint8Array[] = [];
  /** Hashes of the entries that were dropped, and the first entries of streams that go on from before, by the hash they name. */
  readonly #dropped = new Set<string>();
  readonly #continued = new Map<string, number>();
  /** Entries up to here were dropped, as an entry says. */
  #announced = 0;
  #size = 0;
  #recordedMs = 0;

  readonly #onEntry: EntryCheck | undefined;

  constructor(sha256: Sha256, onEntry?: EntryCheck) {
    this.#sha256 = sha256;
    this.#onEntry = onEntry;
  }

  get size(): number {
    return this.#size;
  }

  /** Latest time that an entry was recorded. */
  get recordedMs(): number {
    return this.#recordedMs;
  }

  report(problem: Problem): void {
    if (this.problems.length < MAX_PROBLEMS) this.problems.push(problem);
    else this.uncounted += 1;
  }

  /** Root over the entries so far. */
  root(): Uint8Array {
    return this.#stack.length === 0
      ? this.#sha256(new Uint8Array())
      : this.#stack.reduceRight((right, left) => nodeHash(this.#sha256, left, right));
  }

  /** Takes the next entry; `expected` is its hash as the tiles have it. */
  take(bytes: Uint8Array, leaf: Uint8Array, expected: Uint8Array | undefined): void {
    const index = this.#size;
    this.#push(leaf);
    if (expected && !equalBytes(expected, leaf))
      this.report({ index, code: 'changed', message: 'not the entry whose hash the tree holds' });
    const parsed = parseEntry(bytes);
    if (!parsed.ok) this.report({ index, ...parsed.error });
    else {
      this.#checkOrder(parsed.value, index, hex(leaf));
      const ended = endedOf(parsed.value);
      if (ended && this.ended.length < MAX_ENDED) this.ended.push(ended);
      const continues = parsed.value.stream_seq > 0 && this.#dropped.size > 0;
      for (const problem of checkStory(this.stories, parsed.value, continues)) this.report({ index, ...problem });
      this.#announce(parsed.value);
      for (const problem of this.#onEntry?.(parsed.value) ?? NOTHING) this.report({ index, ...problem });
    }
  }

  /** Takes the hash of an entry that was dropped; there is none of them after the first entry that was not. */
  skip(leaf: Uint8Array): void {
    if (this.#dropped.size < this.#size)
      this.report({ index: this.#size, code: 'dropped_inside', message: 'an entry between others is missing' });
    else this.#dropped.add(hex(leaf));
    this.#push(leaf);
  }

  /** To be called at the end: what is missing was announced, and streams go on from entries that were there. */
  checkDropped(): void {
    const { size } = this.#dropped;
    if (size > this.#announced) {
      const message = 'entries are missing, and no entry says that retention dropped them';
      this.report({ index: this.#announced, until: size, code: 'not_announced', message });
    }
    for (const [prev, index] of this.#continued) {
      if (!this.#dropped.has(prev))
        this.report({ index, code: 'prev', message: 'continues from an entry that never was in the log' });
    }
  }

  /** An entry of the record itself that says up to where entries are dropped. */
  #announce({ type, stream, detail }: AuditEntry): void {
    const isWord = type === 'retention.dropped' || (type === 'admin.changed' && detail?.what === 'retention.begun');
    if (isWord && stream === 'custody' && typeof detail?.until === 'number')
      this.#announced = Math.max(this.#announced, detail.until);
  }

  #push(leaf: Uint8Array): void {
    let node = leaf;
    for (let size = this.#size; size % 2 === 1; size = (size - 1) / 2)
      node = nodeHash(this.#sha256, this.#stack.pop() as Uint8Array, node);
    this.#stack.push(node);
    this.#size += 1;
  }

  #checkOrder(entry: AuditEntry, index: number, leaf: string): void {
    const report = (code: string, message: string, at = index) => this.report({ index: at, code, message });
    if (entry.index !== index) report('index', `entry says index ${entry.index}`);
    if (entry.recorded_ms < this.#recordedMs) report('time', 'recorded before its predecessor');
    this.#recordedMs = Math.max(this.#recordedMs, entry.recorded_ms);
    if (this.#ids.has(entry.id)) report('duplicate_id', `id \`${entry.id}\` occurs twice`);
    this.#ids.add(entry.id);
    const last = this.#streams.get(entry.stream);
    if (!last && this.#dropped.size > 0 && entry.stream_seq > 0 && entry.prev !== null) {
      this.#continued.set(entry.prev, index);
      this.#streams.set(entry.stream, { index, seq: entry.stream_seq, leaf });
      return;
    }
    const follows = entry.stream_seq === (last ? last.seq + 1 : 0);
    if (!follows) report('stream_seq', `gap in stream \`${entry.stream}\``);
    if (entry.prev !== (last?.leaf ?? null)) {
      const before = last ? `entry ${last.index}, the one before it in its stream` : 'the beginning of its stream';
      report('prev', `does not continue from ${before}: this entry, that one or one between them was changed`);
      if (last && follows)
        report(
          'unchained',
          `entry ${index}, the next of its stream, continues from other bytes than these`,
          last.index,
        );
    }
    this.#streams.set(entry.stream, { index, seq: entry.stream_seq, leaf });
  }
}
