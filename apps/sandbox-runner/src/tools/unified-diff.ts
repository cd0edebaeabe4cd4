import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';
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

/** What happens to a file whose lines do not change: nothing, or an empty file comes or goes. */
function sameLines(before: DiffSide, after: DiffSide): string {
  if (before === 'absent' && after !== 'absent') return 'an empty file is made';
  if (before !== 'absent' && after === 'absent') return 'an empty file is removed';
  return `the content stays the same: ${sizeOf(after)}`;
}

/**
 * Unified diff of a change of one file. Where there is no line to show it says why: nothing changes, an empty file
 * comes or goes, or a comparison line by line is not possible (with both sizes).
 */
export function unifiedDiff(path: string, before: DiffSide, after: DiffSide): string {
  const name = escaped(path);
  const [from, to] = [before, after].map((side) => (side === 'absent' ? '/dev/null' : name)) as [string, string];
  const [old, next] = [shownOf(before), shownOf(after)];
  const said = (words: string) => `--- ${from}\n+++ ${to}\n${words}\n`;
  const whole = said(
    `the whole content changes and cannot be shown as text: ${sizeOf(before)} before, ${sizeOf(after)} after`,
  );
  if (!old || !next || !sameEncoding(old, next)) return whole;
  if (old.text === next.text) return said(sameLines(before, after));
  const options = { context: CONTEXT, timeout: DIFF_TIMEOUT_MS, headerOptions: FILE_HEADERS_ONLY };
  return createTwoFilesPatch(from, to, old.text, next.text, undefined, undefined, options) ?? whole;
}
