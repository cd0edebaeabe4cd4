import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, expect, test } from 'vitest';

const root = path.dirname(import.meta.dirname);
const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** Runs vitest in a folder of its own (inside the workspace, so that `vitest` resolves). */
function runOf(text: string): { readonly output: string; readonly status: number | null } {
  const folder = mkdtempSync(path.join(root, 'node_modules', '.closing-line-'));
  folders.push(folder);
  writeFileSync(
    path.join(folder, 'case.test.mjs'),
    `import { beforeAll, describe, expect, test } from 'vitest';\n${text}`,
  );
  const reporter = path.join(root, 'tools/closing-line-reporter.ts');
  const config = `export default { test: { include: ['case.test.mjs'], exclude: [], reporters: ['default', ${JSON.stringify(reporter)}] } };\n`;
  writeFileSync(path.join(folder, 'vitest.config.mjs'), config);
  const command = path.join(root, 'node_modules/vitest/vitest.mjs');
  const run = spawnSync(process.execPath, [command, 'run'], { cwd: folder, encoding: 'utf8' });
  return { output: run.stdout.trimEnd(), status: run.status };
}

function closingLine(text: string): { readonly line: string | undefined; readonly status: number | null } {
  const { output, status } = runOf(text);
  return { line: output.split('\n').at(-1), status };
}

test.each([
  ['passed and failed tests', "test('a', () => {});\ntest('b', () => expect(1).toBe(2));", '1 passed, 1 failed', 1],
  ['only passed tests', "test('a', () => {});", '1 passed, 0 failed', 0],
  ['a file that does not load', "throw new Error('broken');", '0 passed, 1 failed', 1],
  [
    'an error that no test caught',
    "test('a', async () => {\n  Promise.reject(new Error('lost'));\n  await new Promise((done) => setTimeout(done, 20));\n});",
    '1 passed, 1 failed',
    1,
  ],
  [
    'a hook that fails',
    "describe('s', () => {\n  beforeAll(() => {\n    throw new Error('no');\n  });\n  test('a', () => {});\n});",
    '0 passed, 1 failed',
    1,
  ],
  ['a skipped test', "test.skip('a', () => {});\ntest('b', () => {});", '1 passed, 0 failed', 0],
])('the last line counts %s', (_title, text, line, status) => {
  expect(closingLine(text)).toEqual({ line, status });
});

test('a test that passed only at a second try is named before the last line', () => {
  const { output, status } = runOf(
    "let tries = 0;\ntest('now and then', { retry: 1 }, () => {\n  tries += 1;\n  expect(tries).toBe(2);\n});",
  );
  const lines = output.split('\n');
  expect(lines.at(-1)).toBe('1 passed, 0 failed');
  expect(lines.at(-2)).toMatch(/^passed at a second try: .*case\.test\.mjs > now and then$/u);
  expect(status).toBe(0);
});
