import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { type HookEvent, hookSchema } from './hook.ts';
import { runHook } from './run-hook.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'hooks-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let count = 0;
function program(script: string, mode = 0o755): string {
  count += 1;
  const file = path.join(folder, `hook-${count}`);
  writeFileSync(file, `#!/bin/sh\n${script}\n`);
  chmodSync(file, mode);
  return file;
}
const hook = (file: string, timeoutMs = 5_000) => hookSchema.parse({ command: [file, 'argument'], timeoutMs });
const event: HookEvent = {
  event: 'before',
  ...{ call_id: 'call_1', order_id: 'ord_1', agent: 'a', session_id: 'ses_1', host: 'h' },
  ...{ tool: 'bash', project: '/p', profile: 'workspace-write', args: { command: 'secret' } },
};

test('a hook that exits with 0 lets the call go on; it reads the call on its input and nothing in its arguments', async () => {
  const file = program(`cat > ${folder}/seen; echo "$@" > ${folder}/argv; env > ${folder}/env`);
  expect(await runHook(hook(file), event)).toEqual({ ok: true, value: undefined });
  expect(JSON.parse(readFileSync(path.join(folder, 'seen'), 'utf8'))).toEqual(event);
  expect(readFileSync(path.join(folder, 'argv'), 'utf8')).toBe('argument\n');
  expect(readFileSync(path.join(folder, 'env'), 'utf8')).not.toMatch(/COUNTERSIGN|NODE_/);
});

test.each([
  ['answers with a reason', 'echo "not in the freeze week"; exit 1', 0o755, /^not in the freeze week$/],
  ['answers without a reason', 'exit 3', 0o755, /answered 3/],
  ['crashes', 'kill -SEGV $$', 0o755, /ended by SIGSEGV/],
  ['may be changed by others', 'exit 0', 0o757, /may be changed/],
  ['cannot be started', 'exit 0', 0o644, /does not start/],
])('a hook that %s denies', async (_, script, mode, reason) => {
  const answer = await runHook(hook(program(script, mode)), event);
  expect(answer.ok ? '' : answer.error).toMatch(reason);
});

test('a hook that is not there denies', async () => {
  expect(await runHook(hook('/nowhere/hook'), event)).toMatchObject({ ok: false });
});

test('a hook that takes too long denies and is ended with what it started', async () => {
  const file = program(`(sleep 1; touch ${folder}/late) & sleep 30`);
  const answer = await runHook(hook(file, 200), event);
  expect(answer.ok ? '' : answer.error).toMatch(/longer than 200 ms/);
  await runHook(hook(program('sleep 1.2')), event);
  expect(existsSync(path.join(folder, 'late'))).toBe(false);
});

test('a program that is no absolute path is no hook', () => {
  expect(hookSchema.safeParse({ command: ['hook'] }).success).toBe(false);
});
