import { Buffer } from 'node:buffer';

/** Most that a result holds of both streams together. */
export const MAX_OUTPUT_CHARS = 30_000;
export const MAX_OUTPUT_LINES = 2_000;

const NEWLINE = 0x0a;

export type Kept = { readonly bytes: Uint8Array; readonly cutBytes: number };
type Bound = { readonly bytes: number; readonly lines: number };

function linesOf(bytes: Uint8Array): number {
  let lines = bytes.length > 0 && bytes.at(-1) !== NEWLINE ? 1 : 0;
  for (const byte of bytes) if (byte === NEWLINE) lines += 1;
  return lines;
}

/** True inside a UTF-8 sequence. */
const continues = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80;

function headEnd(bytes: Uint8Array, bound: Bound): number {
  let lines = 0;
  let end = 0;
  while (end < bytes.length && end < bound.bytes && lines < bound.lines) {
    if (bytes[end] === NEWLINE) lines += 1;
    end += 1;
  }
  for (let back = 0; back < 3 && continues(bytes[end]); back += 1) end -= 1;
  return end;
}

function tailStart(bytes: Uint8Array, bound: Bound, from: number): number {
  let lines = 0;
  let start = bytes.length;
  while (start > from && bytes.length - start < bound.bytes) {
    if (bytes[start - 1] === NEWLINE && start !== bytes.length) lines += 1;
    if (lines >= bound.lines) break;
    start -= 1;
  }
  for (let on = 0; on < 3 && continues(bytes[start]); on += 1) start += 1;
  return start;
}

/** Head and tail of a stream within a bound; characters are never cut in two. */
function cutMiddle(bytes: Uint8Array, bound: Bound): Kept {
  if (bytes.length <= bound.bytes && linesOf(bytes) <= bound.lines) return { bytes, cutBytes: 0 };
  const half = { bytes: Math.floor(bound.bytes / 2), lines: Math.floor(bound.lines / 2) };
  const end = headEnd(bytes, half);
  const start = tailStart(bytes, half, end);
  return { bytes: Buffer.concat([bytes.subarray(0, end), bytes.subarray(start)]), cutBytes: start - end };
}

/** A stream gets what the other one leaves, at least half. */
function shareOf(own: number, other: number, most: number): number {
  const half = Math.floor(most / 2);
  return Math.min(own, Math.max(half, most - Math.min(other, half)));
}

/** Cuts both streams so that together they keep to the bounds of a result. */
export function shareOutput(stdout: Uint8Array, stderr: Uint8Array): { stdout: Kept; stderr: Kept } {
  const size = { stdout: stdout.length, stderr: stderr.length };
  const lines = { stdout: linesOf(stdout), stderr: linesOf(stderr) };
  const boundOf = (own: 'stdout' | 'stderr', other: 'stdout' | 'stderr'): Bound => ({
    bytes: shareOf(size[own], size[other], MAX_OUTPUT_CHARS),
    lines: shareOf(lines[own], lines[other], MAX_OUTPUT_LINES),
  });
  return {
    stdout: cutMiddle(stdout, boundOf('stdout', 'stderr')),
    stderr: cutMiddle(stderr, boundOf('stderr', 'stdout')),
  };
}
