import { Buffer } from 'node:buffer';
import { closeSync, openSync, readSync } from 'node:fs';
import type { DroppedLeaf } from '@countersign/merkle';

const CHUNK = 1_048_576;
/** A line over this is no entry; only its beginning is kept, so that one line cannot fill the memory. */
const MAX_LINE = 262_144;
const LEAF_START = '{"leaf":"';
const LEAF_END = '"}';

/** Lines of a file by newline bytes alone, cut at 256 KiB. U+2028 and carriage returns end no line. */
export function* linesOfFile(file: string): Generator<Buffer> {
  const descriptor = openSync(file, 'r');
  try {
    let rest: Buffer = Buffer.alloc(0);
    const chunk = Buffer.allocUnsafe(CHUNK);
    for (let read = readSync(descriptor, chunk); read > 0; read = readSync(descriptor, chunk)) {
      let from = 0;
      for (let end = chunk.indexOf(10, from); end >= 0 && end < read; end = chunk.indexOf(10, from)) {
        const piece = chunk.subarray(from, end);
        yield (rest.length === 0 ? Buffer.from(piece) : Buffer.concat([rest, piece])).subarray(0, MAX_LINE + 1);
        rest = Buffer.alloc(0);
        from = end + 1;
      }
      if (rest.length <= MAX_LINE) rest = Buffer.concat([rest, chunk.subarray(from, read)]);
    }
    if (rest.length > 0) yield rest.subarray(0, MAX_LINE + 1);
  } finally {
    closeSync(descriptor);
  }
}

function parsedField(line: string, name: string): string | undefined {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value !== 'object' || value === null) return undefined;
    const [[key, field] = ['', undefined], ...more] = Object.entries(value);
    return key === name && more.length === 0 && typeof field === 'string' ? field : undefined;
  } catch {
    return undefined;
  }
}

/** Bytes of a leaf line. A damaged line stands as its own text, which no entry is, so that it is found at its index. */
export function leafOfLine(line: Buffer): Uint8Array {
  const text = line.toString('latin1');
  const base64 =
    text.startsWith(LEAF_START) && text.endsWith(LEAF_END)
      ? text.slice(LEAF_START.length, -LEAF_END.length)
      : parsedField(line.toString('utf8'), 'leaf');
  const bytes = base64 === undefined ? undefined : Buffer.from(base64, 'base64');
  return bytes?.toString('base64') === base64 && bytes ? bytes : line;
}

/** The hash of a line that stands for a dropped entry; undefined for any other. */
export function droppedOfLine(line: Buffer): Uint8Array | undefined {
  if (line.subarray(0, 13).toString('latin1') !== '{"leaf_hash":') return undefined;
  const hash = Buffer.from(parsedField(line.toString('utf8'), 'leaf_hash') ?? '', 'base64');
  return hash.length === 32 ? hash : undefined;
}

/** What a line stands for: an entry, or one that was dropped. */
function itemOfLine(line: Buffer): Uint8Array | DroppedLeaf {
  const leafHash = droppedOfLine(line);
  return leafHash ? { leafHash } : leafOfLine(line);
}

/** The note of a checkpoint line; undefined for any other. */
export const checkpointOfLine = (line: Buffer): string | undefined =>
  line.subarray(0, 14).toString('latin1') === '{"checkpoint":'
    ? parsedField(line.toString('utf8'), 'checkpoint')
    : undefined;

const isBlank = (line: Buffer): boolean =>
  line.length === 0 || (line.length < 8 && line.toString('latin1').trim() === '');

/**
 * A log in lines: leaves in index order, and last the checkpoint that covers them. `checkpoint` is known when `leaves` was
 * read to its end; empty when there is none.
 */
export function readLines(lines: Iterable<Buffer>): {
  leaves: Iterable<Uint8Array | DroppedLeaf>;
  checkpoint: () => string;
} {
  let checkpoint = '';
  const read = function* (): Generator<Uint8Array | DroppedLeaf> {
    let held: Buffer | undefined;
    for (const line of lines) {
      if (isBlank(line)) continue;
      if (held) yield itemOfLine(held);
      held = line;
    }
    const note = held && checkpointOfLine(held);
    if (note !== undefined) checkpoint = note;
    else if (held) yield itemOfLine(held);
  };
  return { leaves: read(), checkpoint: () => checkpoint };
}
