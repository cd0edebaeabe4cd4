import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';

const MODULE = fileURLToPath(new URL('./data-folder.ts', import.meta.url));
const isRoot = process.getuid?.() === 0;
const base = mkdtempSync('/var/tmp/countersign-data-');
afterAll(() => rmSync(base, { recursive: true, force: true }));

/** Opens a data folder as an ordinary account. */
function open(home: string, folder: string): void {
  const drop = isRoot ? ['/usr/bin/setpriv', '--reuid=61184', '--regid=61184', '--clear-groups', '--'] : [];
  const script = `(await import(${JSON.stringify(MODULE)})).openDataFolder(${JSON.stringify(folder)})`;
  const command: string[] = [...drop, process.execPath, '--input-type=module', '-e', script];
  const [program = '', ...args] = command;
  const { stderr, status } = spawnSync(program, args, { env: { HOME: home }, cwd: '/', encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, '']);
}

test('the sandboxes of an account learn of each data folder at a place of its own, once, and forget what is gone', () => {
  chmodSync(base, 0o755);
  const home = path.join(base, 'home');
  mkdirSync(home);
  if (isRoot) chownSync(home, 61_184, 61_184);
  const [first, second] = [path.join(home, 'first'), path.join(home, 'second')];
  const list = () => readFileSync(path.join(home, '.local/state/countersign/data-folders'), 'utf8');
  open(home, first);
  open(home, first);
  expect(list()).toBe(`${first}\n`);
  rmSync(first, { recursive: true });
  open(home, second);
  expect(list()).toBe(`${second}\n`);
});
