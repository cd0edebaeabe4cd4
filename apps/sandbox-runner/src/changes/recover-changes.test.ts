import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { setImmediate as tick } from 'node:timers/promises';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { isRoot, ToolsUnderTest, uid } from '../launcher/testing/tools-under-test.ts';
import { asAccount } from '../sandbox/run-account.ts';
import type { ChangeCall } from '../work/host-tools.ts';

const host = new ToolsUnderTest();
const CHILD = path.resolve(import.meta.dirname, '../test/killed-change.ts');
const store = path.join(host.home, '.local/state/countersign-sandbox/changes');
let project: string;

beforeEach(() => {
  project = host.project();
});
afterAll(() => host.close());

/** Makes a change in a process that kills itself at `step`. */
function killed(step: string, call: ChangeCall): void {
  const command = [process.execPath, CHILD, step, store, project, host.home, JSON.stringify(call)];
  const [program, args] = isRoot
    ? asAccount({ uid, gid: uid, home: host.home }, command)
    : [process.execPath, command.slice(1)];
  const { signal, stderr } = spawnSync(program, args, { encoding: 'utf8', env: { HOME: host.home } });
  expect([signal, stderr]).toEqual(['SIGKILL', '']);
}

const inside = (name: string): string => path.join(project, name);
const text = (name: string): string => readFileSync(inside(name), 'utf8');
const rollback = (change: string, file: string) =>
  host.tools.change({ tool: 'rollback', args: { path: file, change } }, host.limits(project));

const STEPS = [
  ['change.announced', false],
  ['change.written', false],
  ['change.applied', true],
] as const;

test.each(STEPS)(
  'an edit killed at %s leaves the file whole; recovery says whether it took place',
  async (step, took) => {
    host.file(inside('a'), 'old\n', 0o755);
    killed(step, { tool: 'edit', args: { path: 'a', oldText: 'old', newText: 'new' } });
    expect(text('a')).toBe(took ? 'new\n' : 'old\n');
    const recovered = await host.tools.recoverChanges();
    expect(recovered.map(({ callId, path: changed }) => [callId, changed])).toEqual(
      took ? [['call_killed', inside('a')]] : [],
    );
    expect(readdirSync(project)).toEqual(['a']);
    if (took) expect(await rollback(recovered[0]?.id ?? '', 'a')).toMatchObject({ ok: true });
    expect([text('a'), await host.tools.recoverChanges()]).toEqual(['old\n', []]);
  },
);

test.each(STEPS)('a rollback killed at %s is done or not, and can be done or taken back after', async (step, took) => {
  host.file(inside('a'), 'one\n');
  const changed = await host.tools.change(
    { tool: 'edit', args: { path: 'a', oldText: 'one', newText: 'two' } },
    host.limits(project),
  );
  const id = changed.ok ? changed.value.change.id : '';
  killed(step, { tool: 'rollback', args: { path: 'a', change: id } });
  const [recovered] = await host.tools.recoverChanges();
  expect([text('a'), recovered?.rollsBack]).toEqual(took ? ['one\n', id] : ['two\n', undefined]);
  expect(await rollback(recovered?.id ?? id, 'a')).toMatchObject({ ok: true });
  expect([text('a'), readdirSync(project)]).toEqual([took ? 'two\n' : 'one\n', ['a']]);
});

test('a process killed while it writes 20 MB leaves all of the old file or all of the new one, executable as it was', async () => {
  const [old, fresh] = ['o', 'n'].map((letter) => letter.repeat(20_000_000)) as [string, string];
  const isWriting = (): boolean =>
    readdirSync(project).some((name) => {
      const size = statSync(inside(name), { throwIfNoEntry: false })?.size ?? 0;
      return name.endsWith('.tmp') && size > 0;
    });
  let caught = 0;
  for (let round = 0; round < 20 && caught < 3; round += 1) {
    host.file(inside('big.sh'), old, 0o755);
    const command = [process.execPath, CHILD, '', store, project, host.home, '-'];
    const [program, args] = isRoot
      ? asAccount({ uid, gid: uid, home: host.home }, command)
      : [process.execPath, command.slice(1)];
    const child = spawn(program, args, { env: { HOME: host.home }, stdio: ['pipe', 'ignore', 'inherit'] });
    const ended = once(child, 'exit');
    child.stdin.end(JSON.stringify({ tool: 'write', args: { path: 'big.sh', content: fresh } }));
    let over = false;
    ended.then(() => {
      over = true;
    });
    while (!over && !isWriting()) await tick();
    child.kill('SIGKILL');
    const [, signal] = await ended;
    if (signal === 'SIGKILL') caught += 1;
    const left = text('big.sh');
    expect(left === old || left === fresh).toBe(true);
    expect(statSync(inside('big.sh')).mode & 0o777).toBe(0o755);
    await host.tools.recoverChanges();
    expect(readdirSync(project)).toEqual(['big.sh']);
  }
  expect(caught).toBe(3);
}, 120_000);

test.each([
  ['change.announced', true],
  ['change.applied', false],
] as const)('a deletion killed at %s is told from one that took place', async (step, left) => {
  host.file(inside('b'), 'x');
  killed(step, { tool: 'delete', args: { path: 'b' } });
  const recovered = await host.tools.recoverChanges();
  expect([readdirSync(project).includes('b'), recovered.length]).toEqual([left, left ? 0 : 1]);
});

test('a file that was changed again before the recovery is reported as uncertain and left alone', async () => {
  host.file(inside('a'), 'old\n');
  killed('change.applied', { tool: 'write', args: { path: 'a', content: 'new\n' } });
  host.file(inside('a'), 'user\n');
  expect(await host.tools.recoverChanges()).toMatchObject([{ uncertain: true }]);
  expect(text('a')).toBe('user\n');
});

test('a change that a living process makes is not settled by another', async () => {
  host.file(inside('a'), 'old\n');
  const other = host.another();
  const writing = Array.from({ length: 10 }, (_, at) =>
    other.change({ tool: 'write', args: { path: `f${at}`, content: 'x' } }, host.limits(project)),
  );
  const settled = await host.tools.recoverChanges();
  expect((await Promise.all(writing)).every(({ ok }) => ok)).toBe(true);
  expect(settled).toEqual([]);
  await other.close();
});
