/** Most bytes that are kept of one stream; the first and the last half stay. */
export const MAX_OUTPUT_BYTES = 30_000;

/** Collects a stream without ever holding more than its bound (and one chunk). */
export class BoundedOutput {
  readonly #half: number;
  readonly #head: Buffer[] = [];
  #headBytes = 0;
  #tail: Buffer[] = [];
  #tailBytes = 0;
  #dropped = 0;

  constructor(maxBytes: number = MAX_OUTPUT_BYTES) {
    this.#half = Math.floor(maxBytes / 2);
  }

  add(chunk: Buffer): void {
    const room = Math.min(this.#half - this.#headBytes, chunk.length);
    if (room > 0) {
      this.#head.push(Buffer.from(chunk.subarray(0, room)));
      this.#headBytes += room;
    }
    if (room < chunk.length) this.#addTail(Buffer.from(chunk.subarray(Math.max(0, room))));
  }

  #addTail(rest: Buffer): void {
    this.#tail.push(rest);
    this.#tailBytes += rest.length;
    while (this.#tailBytes > this.#half) {
      const first = this.#tail[0] as Buffer;
      const excess = Math.min(this.#tailBytes - this.#half, first.length);
      if (excess === first.length) this.#tail.shift();
      else this.#tail[0] = first.subarray(excess);
      this.#tailBytes -= excess;
      this.#dropped += excess;
    }
  }

  /** What was kept, in order. */
  bytes(): Buffer {
    return Buffer.concat([...this.#head, ...this.#tail]);
  }

  /** Bytes that lie between the kept head and the kept tail. */
  get droppedBytes(): number {
    return this.#dropped;
  }
}
