import { describe, expect, it } from 'vitest';
import { BoundedOutput } from './bounded-output.ts';

describe('BoundedOutput', () => {
  it.each([1, 3, 7, 100])('keeps head and tail and counts what is missing, in chunks of %i', (size) => {
    const all = Buffer.from(Array.from({ length: 95 }, (_, index) => index));
    const output = new BoundedOutput(20);
    for (let at = 0; at < all.length; at += size) output.add(all.subarray(at, at + size));
    expect([...output.bytes()]).toEqual([...all.subarray(0, 10), ...all.subarray(85)]);
    expect(output.droppedBytes).toBe(75);
  });

  it('keeps output within the bound whole', () => {
    const output = new BoundedOutput(20);
    output.add(Buffer.from('0123456789abcdef'));
    expect([output.bytes().toString(), output.droppedBytes]).toEqual(['0123456789abcdef', 0]);
  });
});
