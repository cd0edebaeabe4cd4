import type { OutputStream } from '../sandbox/execute.ts';
import type { OutputPiece } from '../work/host-tools.ts';

const INTERVAL_MS = 200;
/** Most bytes of one piece, both streams together; what comes beyond in one interval is dropped and counted. */
const MAX_PIECE_BYTES = 32 * 1024;

/**
 * Gathers the output of a running command into pieces, at most one in 200 ms. Memory and rate are bounded whatever the
 * command prints. A command that ends within the first interval sends none.
 */
export class OutputFlow {
  private readonly send: (piece: OutputPiece) => void;
  private parts: Record<OutputStream, Uint8Array[]> = { stdout: [], stderr: [] };
  private bytes = 0;
  private dropped = 0;
  private timer: NodeJS.Timeout | undefined;
  private hasSent = false;

  constructor(send: (piece: OutputPiece) => void) {
    this.send = send;
  }

  add(stream: OutputStream, chunk: Uint8Array): void {
    const room = Math.min(MAX_PIECE_BYTES - this.bytes, chunk.length);
    if (room > 0) this.parts[stream].push(Uint8Array.from(chunk.subarray(0, room)));
    this.bytes += room;
    this.dropped += chunk.length - room;
    this.timer ??= setTimeout(() => this.flush(), INTERVAL_MS);
  }

  /** Sends the rest to those who saw the beginning. */
  end(): void {
    clearTimeout(this.timer);
    if (this.hasSent) this.flush();
  }

  private flush(): void {
    this.timer = undefined;
    if (this.bytes === 0) return;
    const { stdout, stderr } = this.parts;
    this.send({ stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr), droppedBytes: this.dropped });
    this.hasSent = true;
    this.parts = { stdout: [], stderr: [] };
    this.bytes = 0;
    this.dropped = 0;
  }
}
