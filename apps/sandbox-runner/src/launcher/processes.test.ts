import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeEach, expect, it } from 'vitest';
import type { LiveCommand, OutputPiece } from '../work/host-tools.ts';
import { sandboxedTools } from './sandboxed-tools.ts';
import { INSTALLATION, isRoot, stdoutOf, ToolsUnderTest, uid } from './testing/tools-under-test.ts';

const host = new ToolsUnderTest();
let project: string;

beforeEach(() => {
  project = host.project();
});
afterAll(() => host.close());

const run = (command: string, change: { timeoutMs?: number; live?: LiveCommand; signal?: AbortSignal } = {}) => {
  const { live, ...limits } = change;
  return host.tools.bash({ command }, host.limits(project, limits), live);
};

function follow(backgroundMs = 20_000) {
  const pieces: OutputPiece[] = [];
  const background = new AbortController();
  const live: LiveCommand = { onOutput: (piece) => pieces.push(piece), background: background.signal, backgroundMs };
  const text = () => Buffer.concat(pieces.map(({ stdout }) => stdout)).toString('utf8');
  return { pieces, background, live, text };
}

it('gives the output while the command runs, and the same output at its end', async () => {
  const { live, text } = follow();
  const command = 'echo one; while [ ! -e seen ]; do sleep 0.1; done; echo two; sleep 0.3; echo three';
  const ending = run(command, { live });
  await expect.poll(text, { timeout: 10_000 }).toBe('one\n');
  host.file(path.join(project, 'seen'), '');
  expect(stdoutOf(await ending)).toBe('one\ntwo\nthree\n');
  expect(text()).toBe('one\ntwo\nthree\n');
});

it('bounds what it gives of a flood and counts what it left out', async () => {
  const { live, pieces } = follow();
  const ending = await run('yes | head -c 50000000; sleep 0.4; echo last', { live });
  const shown = pieces.reduce((sum, { stdout }) => sum + stdout.length, 0);
  const dropped = pieces.reduce((sum, { droppedBytes }) => sum + droppedBytes, 0);
  expect(shown + dropped).toBe(50_000_005);
  expect(Math.max(...pieces.map(({ stdout }) => stdout.length))).toBeLessThanOrEqual(32 * 1024);
  expect(ending).toMatchObject({ ending: 'exited', exitCode: 0 });
});

it('lets a command that goes to the background outlive its time limit, up to a new one', async () => {
  const first = follow();
  const kept = run('sleep 1.5; echo over', { timeoutMs: 700, live: first.live });
  first.background.abort();
  expect(stdoutOf(await kept)).toBe('over\n');
  const second = follow(500);
  second.background.abort();
  expect(await run('sleep 20', { live: second.live })).toMatchObject({ ending: 'killed', killedBy: 'timeout' });
});

it('stops a command in the background with everything that it started', async () => {
  const { live, background } = follow();
  const stop = new AbortController();
  const command = 'trap "" TERM; setsid sh -c "sleep 2; echo late > late" & echo $$ > ready; wait; sleep 20';
  const ending = run(command, { live, signal: stop.signal });
  background.abort();
  await expect.poll(() => existsSync(path.join(project, 'ready')), { timeout: 10_000 }).toBe(true);
  stop.abort('stop');
  expect(await ending).toMatchObject({ ending: 'killed', killedBy: 'stop' });
  await run('sleep 2.2');
  expect(existsSync(path.join(project, 'late'))).toBe(false);
});

it('leaves no process of a command that is stopped while its sandbox is being made', async () => {
  const of = (name: string) => {
    try {
      return readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(project);
    } catch {
      return false;
    }
  };
  for (let afterMs = 0; afterMs < 30; afterMs += 2) {
    const stop = new AbortController();
    const ending = run('sleep 30', { signal: stop.signal });
    setTimeout(() => stop.abort('stop'), afterMs);
    expect(await ending).toMatchObject({ ending: 'killed', killedBy: 'stop' });
  }
  const left = () => readdirSync('/proc').filter((name) => /^\d+$/.test(name) && of(name));
  await expect.poll(left, { timeout: 10_000 }).toEqual([]);
});

it('ends at once what waits for input, a terminal, an editor or a pager', async () => {
  host.file(path.join(project, 'long'), 'line\n'.repeat(500));
  const command = [
    'read x || echo no input',
    'cat',
    'tty || true',
    '$EDITOR long || echo no editor',
    '$PAGER long | tail -1',
    'git log --help >/dev/null 2>&1; git -c init.defaultBranch=a init -q ../x 2>/dev/null',
    'echo over',
  ].join('; ');
  const ending = await run(command, { timeoutMs: 15_000 });
  expect([ending.ending, stdoutOf(ending)]).toEqual(['exited', 'no input\nnot a tty\nno editor\nline\nover\n']);
});

it('keeps two runners of one account apart: the end of one leaves the commands of the other alone', async () => {
  const other = host.another();
  const mine = run('sleep 1.5; echo mine > mine; ls -a');
  await other.bash({ command: 'echo theirs > theirs' }, host.limits(project));
  const theirs = other.bash({ command: 'sleep 30' }, host.limits(project));
  await other.close();
  expect(await theirs).toMatchObject({ ending: 'killed' });
  expect(stdoutOf(await mine)).toContain('mine');
  expect([readFileSync(path.join(project, 'mine'), 'utf8'), existsSync(path.join(project, '.git'))]).toEqual([
    'mine\n',
    false,
  ]);
});

it('ends what uses up its processor time or writes too large a file, and says so', async () => {
  const limited = sandboxedTools({
    runAs: isRoot ? { uid, gid: uid, home: host.home } : null,
    installation: INSTALLATION,
    limits: { cpuSeconds: 1, fileBytes: 1_048_576, memoryBytes: 268_435_456 },
  });
  const runLimited = (command: string) => limited.bash({ command }, host.limits(project));
  expect(await runLimited('while :; do :; done')).toMatchObject({
    violations: ['limit: processor time was used up'],
  });
  const large = await runLimited('head -c 5000000 /dev/zero > large; ls -l large | cut -d" " -f5');
  expect(stdoutOf(large)).toBe('1048576\n');
  expect(await runLimited('exec head -c 5000000 /dev/zero > large')).toMatchObject({
    violations: ['limit: a file grew too large'],
  });
  expect(stdoutOf(await runLimited('dd if=/dev/zero of=/dev/null bs=400M count=1 2>/dev/null || echo no memory'))).toBe(
    'no memory\n',
  );
  await limited.close();
});
