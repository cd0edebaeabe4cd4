import { execFile } from 'node:child_process';
import { closeSync, constants, openSync, unlinkSync } from 'node:fs';
import { Socket } from 'node:net';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const MKFIFO = '/usr/bin/mkfifo';

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

/** Makes pipes without a name. `spool` is a private folder that no sandbox sees. */
export async function makePipes(spool: string): Promise<{ stdout: OutputPipe; stderr: OutputPipe }> {
  const names = ['out', 'err'].map((kind) => path.join(spool, `${kind}-${crypto.randomUUID()}`)) as [string, string];
  await run(MKFIFO, ['-m', '600', ...names], { env: {}, cwd: '/' });
  return { stdout: openPipe(names[0]), stderr: openPipe(names[1]) };
}
