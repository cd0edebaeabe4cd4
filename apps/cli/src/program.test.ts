import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Command } from 'commander';
import { afterAll, expect, test } from 'vitest';
import { program } from './program.ts';

const run = promisify(execFile);
const folder = mkdtempSync(path.join(tmpdir(), 'countersign-program-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const treeOf = (command: Command): Command[] => [command, ...command.commands.flatMap(treeOf)];
const nameOf = (command: Command): string =>
  command.parent ? `${nameOf(command.parent)} ${command.name()}` : command.name();

/** Runs the command line against an installation that does not exist: what is refused as usage was never sent. */
async function refusal(...args: string[]): Promise<[number, string]> {
  const main = path.join(import.meta.dirname, 'main.ts');
  const ended = run(process.execPath, [main, '--data', folder, ...args]);
  return ended.then(
    () => [0, ''],
    ({ code, stderr }: { code: number; stderr: string }) => [code, stderr.trim()],
  );
}

test('every command and option says what it does, and no default is shown empty', () => {
  const commands = treeOf(program());
  expect(commands.length).toBeGreaterThan(80);
  expect(commands.filter((command) => command.description() === '').map(nameOf)).toEqual([]);
  const silent = commands.flatMap((command) =>
    command.options.filter(({ description }) => description === '').map(({ flags }) => `${nameOf(command)} ${flags}`),
  );
  expect(silent).toEqual([]);
  expect(commands.filter((each) => /default: (?:\[\]|"")/.test(each.helpInformation())).map(nameOf)).toEqual([]);
});

test.each([
  ['--lines', ['processes', 'tail', 'cal_1', '--lines', 'many'], 'from 1 to 2000, not `many`'],
  ['--lines', ['processes', 'tail', 'cal_1', '--lines', '2001'], 'from 1 to 2000, not `2001`'],
  ['--limit', ['changes', 'list', '--limit', '1e2'], 'from 1 to 500, not `1e2`'],
  ['--limit', ['audit', 'query', 'who', '--limit', '0'], 'from 1 to 1000, not `0`'],
  ['number', ['notifications', 'replay', '0x1'], 'of at least 1, not `0x1`'],
  ['--timeout-ms', ['approvals', 'approve', 'cal_1', '--timeout-ms', '-5'], 'of at least 1, not `-5`'],
  ['--hours', ['runner', 'invite', 'web-1', '--principal', 'a', '--hours', '169'], 'from 1 to 168, not `169`'],
  ['--days', ['tokens', 'create', 't', '--role', 'viewer', '--days', ''], 'from 1 to 366, not ``'],
  ['--overlap', ['keys', 'rotate', 'gateway', 'gw', '--overlap', '1.5'], 'not `1.5`'],
] as const)('a wrong number for %s is refused before anything is asked: %j', async (name, args, said) => {
  const [code, stderr] = await refusal(...args);
  expect(stderr).toContain(`\`${name}\` is a whole number `);
  expect(stderr).toContain(said);
  expect(code).toBe(2);
});

test('`policy explain --waited` takes whole minutes alone', async () => {
  const policy = path.join(folder, 'policy.yaml');
  writeFileSync(policy, '{}\n');
  const call = ['--tool', 'bash', '--value', 'ls', '--person', 'ada', '--waited'];
  const [code, stderr] = await refusal('policy', 'explain', '--policy', policy, ...call, 'soon');
  expect([code, stderr]).toEqual([
    2,
    expect.stringContaining('`--waited` is a whole number of at least 0, not `soon`'),
  ]);
});

test.each([
  ['no file', 'missing.json', 'there is no such file'],
  ['a folder', '.', 'it is a folder'],
  ['a file below a file', 'plain/connection.json', 'there is no such file'],
])('`--connection` with %s says so and is a usage error', async (_title, name, said) => {
  writeFileSync(path.join(folder, 'plain'), '');
  const file = path.join(folder, name);
  const [code, stderr] = await refusal('approvals', 'list', '--connection', file);
  expect([code, stderr]).toEqual([2, `error: cannot read \`${file}\`: ${said} (countersign.cli.connection)`]);
});

test('a connection whose token file is missing names that file', async () => {
  const file = path.join(folder, 'connection.json');
  writeFileSync(file, JSON.stringify({ gateway: 'https://approvals.example.org', tokenFile: 'gone' }));
  const [code, stderr] = await refusal('approvals', 'list', '--connection', file);
  expect([code, stderr]).toEqual([2, expect.stringContaining(`cannot read \`${path.join(folder, 'gone')}\``)]);
});
