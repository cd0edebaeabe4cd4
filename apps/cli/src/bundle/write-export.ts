import { Buffer } from 'node:buffer';
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, writeFileSync, writeSync } from 'node:fs';
import path from 'node:path';
import { EXIT, RefusedError } from '../output.ts';
import type { LogKey } from './log-crypto.ts';
import { checkpointOfLine, droppedOfLine, leafOfLine } from './log-lines.ts';
import { TileFolderWriter } from './tile-folder.ts';
import { KEY_FILE, LOG_FILE } from './verify-export.ts';

export const FORMATS = ['tiles', 'ndjson', 'both'] as const;
export type ExportFormat = (typeof FORMATS)[number];

/** Complete lines of a stream, without their newline. */
async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of chunks) {
    let data = rest.length === 0 ? Buffer.from(chunk) : Buffer.concat([rest, chunk]);
    for (let end = data.indexOf(10); end >= 0; end = data.indexOf(10)) {
      yield data.subarray(0, end);
      data = data.subarray(end + 1);
    }
    rest = data;
  }
  if (rest.length > 0) yield rest;
}

function openFolder(folder: string): void {
  mkdirSync(folder, { recursive: true });
  const left = ['tile', 'checkpoint', LOG_FILE].find((name) => existsSync(path.join(folder, name)));
  if (left === undefined) return;
  throw new RefusedError(
    `\`${folder}\` holds an export already (\`${left}\`); name an empty folder`,
    'countersign.cli.folder_taken',
    EXIT.usage,
  );
}

/**
 * Writes an export as it arrives: tiles, or JSON Lines with the hash tiles, or both. Refused when the folder holds one, or
 * when the stream ends before its checkpoint; what was written then stays, and does not verify.
 */
export async function writeExport(
  folder: string,
  chunks: AsyncIterable<Uint8Array>,
  format: ExportFormat,
  log: LogKey,
): Promise<{ readonly entries: number; readonly files: readonly string[] }> {
  openFolder(folder);
  const tiles = new TileFolderWriter(folder, format !== 'ndjson');
  const lines = format === 'tiles' ? undefined : openSync(path.join(folder, LOG_FILE), 'w');
  let checkpoint: string | undefined;
  try {
    for await (const line of linesOf(chunks)) {
      if (lines !== undefined) writeSync(lines, Buffer.concat([line, Buffer.of(10)]));
      checkpoint = checkpointOfLine(line);
      const dropped = droppedOfLine(line);
      if (dropped) tiles.addDropped(dropped);
      else if (checkpoint === undefined) tiles.add(leafOfLine(line));
    }
  } finally {
    if (lines !== undefined) closeSync(lines);
  }
  if (checkpoint === undefined)
    throw new RefusedError('the export ended before its checkpoint; run it again', 'countersign.cli.export_cut');
  tiles.end(checkpoint);
  writeFileSync(path.join(folder, KEY_FILE), `${JSON.stringify({ publicKey: log.publicKey, name: log.name })}\n`);
  return { entries: tiles.size, files: readdirSync(folder).sort() };
}
