import { createTwoFilesPatch } from 'diff';
import { decodeText } from './text-encoding.ts';

/** Largest content that is compared line by line. */
export const MAX_DIFF_INPUT_BYTES = 1024 * 1024;
const DIFF_TIMEOUT_MS = 2_000;
const CONTEXT = 3;

/** Content before or after a change: bytes; `absent` when there is no file; a size when it is too large to be read. */
export type DiffSide = Uint8Array | 'absent' | { readonly size: number };

/** SECURITY: a line break in a file name would forge lines of the diff that the approver reads. */
const escaped = (name: string): string =>
  name.replace(/\p{Cc}|\p{Cf}/gu, (c) => `\\u{${c.codePointAt(0)?.toString(16)}}`);

const sizeOf = (side: DiffSide): string =>
  side === 'absent' ? 'no file' : `${side instanceof Uint8Array ? side.length : side.size} bytes`;

type Shown = { readonly text: string; readonly encoding?: string };

function shownOf(side: DiffSide): Shown | undefined {
  if (side === 'absent') return { text: '' };
  if (!(side instanceof Uint8Array) || side.length > MAX_DIFF_INPUT_BYTES) return undefined;
  const decoded = decodeText(side);
  return decoded && { text: `${decoded.hasMark ? '\ufeff' : ''}${decoded.text}`, encoding: decoded.encoding };
}

/** A change of the encoding changes every byte, which lines would not show. */
const sameEncoding = (old: Shown, next: Shown): boolean =>
  old.encoding === undefined || next.encoding === undefined || old.encoding === next.encoding;

/** Unified diff of a change of one file. Where a line by line comparison is not possible it says so, with both sizes. */
export function unifiedDiff(path: string, before: DiffSide, after: DiffSide): string {
  const name = escaped(path);
  const [from, to] = [before, after].map((side) => (side === 'absent' ? '/dev/null' : name)) as [string, string];
  const [old, next] = [shownOf(before), shownOf(after)];
  const whole = `--- ${from}\n+++ ${to}\nthe whole content changes and cannot be shown as text: ${sizeOf(before)} before, ${sizeOf(after)} after\n`;
  if (!old || !next || !sameEncoding(old, next)) return whole;
  const options = { context: CONTEXT, timeout: DIFF_TIMEOUT_MS };
  return createTwoFilesPatch(from, to, old.text, next.text, undefined, undefined, options) ?? whole;
}
