import { execFile } from 'node:child_process';
import { closeSync, constants, mkdirSync, openSync, readdirSync, rmSync, unlinkSync } from 'node:fs';
import { Socket } from 'node:net';
import path from 'node:path';
import { promisify } from 'node:util';
import { isAlive, thisProcess } from '../changes/process-owner.ts';

const run = promisify(execFile);
const MKFIFO = '/usr/bin/mkfifo';
const FOLDER = 'pipes-';

/** A real pipe. Node's own are socket pairs, which cannot be opened by name as `/dev/stdout`. */
export type OutputPipe = {
  readonly writeEnd: number;
  readonly readEnd: Socket;
  /** Closes the write end in this process; the reader sees the end when the last other holder is gone. */
  readonly closeWriteEnd: () => void;
};

function openPipe(name: string): OutputPipe {
  const reading = openSync(name, constants.O_RDONLY | constants.O_NONBLOCK);
  const writeEnd = openSync(name, constants.O_WRONLY);
  unlinkSync(name);
  const readEnd = new Socket({ fd: reading, readable: true, writable: false });
  return { writeEnd, readEnd, closeWriteEnd: () => closeSync(writeEnd) };
}

/** Pipes that are made a batch at a time, because each making costs a process. Every pipe serves one run. */
export class PipePool {
  readonly #batch: number;
  #names: string[] = [];
  #refill: Promise<void> | undefined;

  /** `batch` pipes are made at once; an odd one is rounded up. */
  constructor(batch: number) {
    this.#batch = Math.ceil(batch / 2) * 2;
  }

  /** Takes two pipes. `spool` is a private folder that no sandbox sees, the same in every call. */
  async take(spool: string): Promise<{ stdout: OutputPipe; stderr: OutputPipe }> {
    while (this.#names.length < 2) await this.#fill(spool);
    const [out, err] = this.#names.splice(0, 2) as [string, string];
    if (this.#batch > 2 && this.#names.length < this.#batch / 2) void this.#fill(spool).catch(() => undefined);
    return { stdout: openPipe(out), stderr: openPipe(err) };
  }

  #fill(spool: string): Promise<void> {
    this.#refill ??= this.#make(spool).finally(() => {
      this.#refill = undefined;
    });
    return this.#refill;
  }

  async #make(spool: string): Promise<void> {
    const folder = path.join(spool, FOLDER + thisProcess());
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const names = Array.from({ length: this.#batch }, () => path.join(folder, crypto.randomUUID()));
    await run(MKFIFO, ['-m', '600', ...names], { env: {}, cwd: '/' });
    this.#names.push(...names);
  }
}

/** Removes pipes of ended processes that no run took. */
export function sweepPipes(spool: string): void {
  for (const name of readdirSync(spool)) {
    const isLeft = name.startsWith(FOLDER) && !isAlive(name.slice(FOLDER.length));
    if (isLeft) rmSync(path.join(spool, name), { recursive: true, force: true });
  }
}
