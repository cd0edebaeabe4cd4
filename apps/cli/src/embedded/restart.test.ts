import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, test } from 'vitest';
import { installationPath } from './data-folder.ts';
import { commandLineOf } from './orphans.ts';

const root = mkdtempSync(path.join(process.getuid?.() === 0 ? '/var/lib' : homedir(), 'countersign-restart-'));
chmodSync(root, 0o711);
const command = path.join(installationPath(), 'apps/cli/src/main.ts');
const processesFile = path.join(root, 'private/run/processes.json');
const started: ChildProcess[] = [];
/** A call of an earlier run. */
let kept = '';

type Run = { readonly child: ChildProcess; readonly said: () => string; readonly ended: Promise<unknown[]> };

function start(): Run {
  const args = [command, 'start', '--no-samples', '--data', root];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  started.push(child);
  let text = '';
  child.stderr.on('data', (data: Buffer) => {
    text += data.toString();
  });
  return { child, said: () => text, ended: once(child, 'exit') };
}

const countersign = (...args: string[]) =>
  promisify(execFile)(process.execPath, [command, ...args, '--data', root], { encoding: 'utf8' });
const untilServing = ({ said }: Run) => expect.poll(said, { timeout: 40_000 }).toContain('Ctrl-C stops everything');
const children = (): { name: string; pid: number; commandLine: string }[] =>
  JSON.parse(readFileSync(processesFile, 'utf8')).children;
const living = (recorded: ReturnType<typeof children>): string[] =>
  recorded.filter(({ pid, commandLine }) => commandLineOf(pid) === commandLine).map(({ name }) => name);

afterAll(async () => {
  for (const child of started) if (child.exitCode === null && child.signalCode === null) child.kill('SIGINT');
  await Promise.all(
    started.filter((child) => child.exitCode === null && child.signalCode === null).map((child) => once(child, 'exit')),
  );
  rmSync(root, { recursive: true, force: true });
}, 60_000);

test('a second start is refused, a killed run is cleaned up by the next, and the record is kept', async () => {
  const first = start();
  await untilServing(first);
  const { stdout } = await countersign('call', 'bash', '{"command":"echo kept"}', '--json');
  const { callId } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as { callId: string };

  const rival = start();
  await rival.ended;
  expect([rival.child.exitCode === 0, rival.said()]).toEqual([false, expect.stringContaining('already running')]);

  const orphans = children();
  first.child.kill('SIGKILL');
  await first.ended;
  expect(living(orphans).length).toBe(6);

  const second = start();
  await untilServing(second);
  expect(second.said()).toContain('stopped what a killed run left');
  expect(living(orphans)).toEqual([]);
  const shown = await countersign('approvals', 'show', callId, '--json');
  expect(JSON.parse(shown.stdout)).toMatchObject({ callId, state: 'done' });
  kept = callId;

  const served = children();
  second.child.kill('SIGINT');
  expect(await second.ended).toEqual([0, null]);
  expect([living(served), existsSync(processesFile)]).toEqual([[], false]);
}, 150_000);

test('a database whose password is gone is left alone, with what to do; put back, it goes on with the same record', async () => {
  const password = path.join(root, 'private/database-password');
  renameSync(password, `${password}.away`);
  const refused = start();
  await refused.ended;
  expect(refused.child.exitCode).not.toBe(0);
  expect(refused.said()).toContain(`cannot be opened without \`${password}\`; put that back from a backup`);
  renameSync(`${password}.away`, password);
  const again = start();
  await untilServing(again);
  const shown = await countersign('approvals', 'show', kept, '--json');
  expect(JSON.parse(shown.stdout)).toMatchObject({ callId: kept, state: 'done' });
  again.child.kill('SIGINT');
  await again.ended;
}, 120_000);
