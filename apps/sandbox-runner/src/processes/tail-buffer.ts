/** Most bytes that a tail keeps. */
export const MAX_TAIL_BYTES = 64 * 1024;

/** The last bytes of an output. */
export class TailBuffer {
  private parts: Uint8Array[] = [];
  private bytes = 0;
  private total = 0;

  add(chunk: Uint8Array, droppedBefore = 0): void {
    this.total += chunk.length + droppedBefore;
    this.parts.push(chunk);
    this.bytes += chunk.length;
    if (this.bytes < 2 * MAX_TAIL_BYTES) return;
    const kept = Buffer.concat(this.parts).subarray(-MAX_TAIL_BYTES);
    this.parts = [Buffer.from(kept)];
    this.bytes = kept.length;
  }

  /** The last whole lines, at most `lines` of them, and how many bytes came before. */
  last(lines: number): { readonly text: Uint8Array; readonly earlierBytes: number } {
    const all = Buffer.concat(this.parts).subarray(-MAX_TAIL_BYTES);
    let from = all.length;
    let found = all.at(-1) === 0x0a ? -1 : 0;
    while (from > 0 && found < lines) {
      from -= 1;
      if (all[from] === 0x0a) found += 1;
    }
    const start = found >= lines && all[from] === 0x0a ? from + 1 : from;
    const text = Buffer.from(all.subarray(start));
    return { text, earlierBytes: this.total - text.length };
  }
}
