import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';

const room = path.resolve(import.meta.dirname, '..');

test('the committed code is what the protobuf files generate', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'countersign-generated-'));
  try {
    const buf = path.resolve(room, '../../node_modules/.bin/buf');
    const PATH = `${path.dirname(buf)}:${process.env.PATH ?? ''}`;
    execFileSync(buf, ['generate', '-o', folder], { cwd: room, env: { ...process.env, PATH } });
    const inside = 'src/gen/countersign/v1';
    const read = (root: string) => {
      const files = readdirSync(path.join(root, inside)).toSorted();
      return Object.fromEntries(files.map((file) => [file, readFileSync(path.join(root, inside, file), 'utf8')]));
    };
    expect(read(room)).toEqual(read(folder));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}, 30_000);
