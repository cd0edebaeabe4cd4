import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MAX_OUTPUT_CHARS, MAX_OUTPUT_LINES, shareOutput } from './share-output.ts';

const bytes = (text: string): Uint8Array => Buffer.from(text);
const text = (kept: { bytes: Uint8Array }): string => new TextDecoder('utf-8', { fatal: true }).decode(kept.bytes);
const linesOf = (kept: { bytes: Uint8Array }): number => text(kept).split('\n').length - 1;

test('what fits is kept whole, also when one stream takes nearly all', () => {
  const [out, err] = ['x'.repeat(29_000), 'y'.repeat(900)];
  const shared = shareOutput(bytes(out), bytes(err));
  expect([text(shared.stdout), text(shared.stderr), shared.stdout.cutBytes]).toEqual([out, err, 0]);
});

test('many lines keep their first and last ones, and the cut is counted', () => {
  const all = Array.from({ length: 5_000 }, (_, at) => `${at}\n`).join('');
  const { stdout } = shareOutput(bytes(all), bytes(''));
  expect([text(stdout).startsWith('0\n1\n'), text(stdout).endsWith('4998\n4999\n')]).toEqual([true, true]);
  expect(linesOf(stdout)).toBe(MAX_OUTPUT_LINES);
  expect(stdout.bytes.length + stdout.cutBytes).toBe(all.length);
});

test('two long streams share the bounds', () => {
  const { stdout, stderr } = shareOutput(bytes('o\n'.repeat(50_000)), bytes('e\n'.repeat(50_000)));
  expect([linesOf(stdout), linesOf(stderr)]).toEqual([MAX_OUTPUT_LINES / 2, MAX_OUTPUT_LINES / 2]);
});

test('no character is cut in two, and the sum of kept and cut is the whole', () => {
  const piece = fc.constantFrom('a', 'é', '€', '😀', '\n', 'b'.repeat(4_000));
  const output = fc.array(piece, { maxLength: 60 }).map((parts) => parts.join('').repeat(3));
  fc.assert(
    fc.property(output, output, (out, err) => {
      const { stdout, stderr } = shareOutput(bytes(out), bytes(err));
      expect(stdout.bytes.length + stderr.bytes.length).toBeLessThanOrEqual(MAX_OUTPUT_CHARS);
      expect(linesOf(stdout) + linesOf(stderr)).toBeLessThanOrEqual(MAX_OUTPUT_LINES);
      expect(stdout.bytes.length + stdout.cutBytes).toBe(bytes(out).length);
      expect(stderr.bytes.length + stderr.cutBytes).toBe(bytes(err).length);
    }),
    { numRuns: 50 },
  );
});
