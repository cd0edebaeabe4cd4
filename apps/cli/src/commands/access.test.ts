import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { installationPath } from '../embedded/data-folder.ts';
import { enrolSamples } from '../embedded/enrol.ts';
import { type Installation, startInstallation } from '../embedded/installation.ts';
import { writePrivateFile } from '../embedded/private-file.ts';

const run = promisify(execFile);
const root = mkdtempSync(path.join(process.getuid?.() === 0 ? '/var/lib' : homedir(), 'countersign-access-'));
let installation: Installation;
const children: ChildProcess[] = [];

beforeAll(async () => {
  chmodSync(root, 0o711);
  installation = await startInstallation(root, () => undefined);
  await enrolSamples(installation);
}, 90_000);

afterAll(async () => {
  for (const child of children) child.kill('SIGTERM');
  await installation?.stop();
  rmSync(root, { recursive: true, force: true });
}, 60_000);

type Ended = { code: number; stdout: string; stderr: string };

/** Runs the command line as a user would. */
async function countersign(...args: string[]): Promise<Ended> {
  const entry = path.join(installationPath(), 'apps/cli/src/main.ts');
  return run(process.execPath, [entry, '--data', root, ...args]).then(
    ({ stdout, stderr }) => ({ code: 0, stdout: stdout.trim(), stderr }),
    (error: Ended) => ({ code: error.code, stdout: error.stdout.trim(), stderr: error.stderr }),
  );
}

const file = (name: string) => path.join(root, name);

test('a token made on the command line works, is listed without its text, and ends when it is revoked', async () => {
  const made = JSON.parse((await countersign('--json', 'tokens', 'create', 'ci', '--role', 'viewer')).stdout) as {
    id: string;
    text: string;
  };
  const status = async () =>
    (await fetch(`${installation.endpoints.http}/v1/calls`, { headers: { authorization: `Bearer ${made.text}` } }))
      .status;
  expect(await status()).toBe(200);
  const list = (await countersign('tokens', 'list')).stdout;
  expect([list.includes(made.id), list.includes(made.text)]).toEqual([true, false]);
  expect((await countersign('tokens', 'revoke', made.id)).code).toBe(0);
  expect(await status()).toBe(401);
  expect((await countersign('tokens', 'create', 'x', '--role', 'king')).code).toBe(1);
});

test('an agent enrols its own keys with an invitation, reaches the broker, and its call runs', async () => {
  const project = installation.data.sampleProject;
  const invited = await countersign(
    ...['agent', 'invite', 'coder', '--principal', 'zoe', '--host', 'local', '--root', `local=${project}`],
    ...['--tool', 'read', 'bash', '--out', file('invitation')],
  );
  expect([invited.code, statSync(file('invitation')).mode & 0o777]).toEqual([0, 0o600]);
  const at = ['--gateway', installation.endpoints.http, '--invitation', file('invitation')];
  const enrolled = await countersign('agent', 'enroll', 'coder', ...at, '--out', file('coder'));
  expect(enrolled).toMatchObject({ code: 0 });
  expect(readFileSync(file('coder/identity.json'), 'utf8')).not.toContain(
    readFileSync(file('invitation'), 'utf8').trim(),
  );
  const identity = ['--agent', file('coder/agent.json')];
  await expect
    .poll(async () => (await countersign('session', 'open', '--project', project, ...identity)).code, {
      timeout: 20_000,
    })
    .toBe(0);
  const session = (await countersign('session', 'open', '--project', project, ...identity)).stdout;
  const called = await countersign('call', 'bash', '{"command":"echo enrolled"}', '--session', session, ...identity);
  expect([called.code, called.stdout.includes('enrolled')]).toEqual([0, true]);
  const again = await countersign('agent', 'enroll', 'coder', ...at, '--out', file('again'));
  expect([again.code, again.stderr.includes('was used')]).toEqual([1, true]);
}, 60_000);

test('an invitation whose root is another one enrols nobody here', async () => {
  await countersign('agent', 'invite', 'eve', '--principal', 'zoe', '--out', file('forged'));
  const text = readFileSync(file('forged'), 'utf8').trim();
  writePrivateFile(file('forged'), `${text.slice(0, -43)}${'A'.repeat(43)}`);
  const at = ['--gateway', installation.endpoints.http, '--invitation', file('forged')];
  const refused = await countersign('agent', 'enroll', 'eve', ...at, '--out', file('eve'));
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('root key is not the one')]);
});

test('a host enrols with an invitation, its runner starts from the written configuration and reports ready', async () => {
  await countersign('runner', 'invite', 'second', '--principal', 'ops', '--out', file('host-invitation'));
  const { runAccount, home } = installation.data;
  const runAs = runAccount ? ['--run-as', `${runAccount.uid}:${runAccount.gid}:${home}`] : [];
  const at = ['--gateway', installation.endpoints.http, '--invitation', file('host-invitation')];
  const enrolled = await countersign('runner', 'enroll', 'second', ...at, '--out', file('second'), ...runAs);
  expect(enrolled).toMatchObject({ code: 0 });
  const main = path.join(installationPath(), 'apps/sandbox-runner/src/main.ts');
  const isReady = async () => {
    const hosts = await installation.client('local-operator').hosts();
    return hosts.ok && hosts.value.some(({ host, ready }) => host === 'second' && ready === true);
  };
  const start = () => {
    const child = spawn(process.execPath, [main], {
      env: { ...process.env, COUNTERSIGN_CONFIG: file('second/runner.json') },
      stdio: 'ignore',
    });
    children.push(child);
    return child;
  };
  let child = start();
  const becomesReady = () =>
    expect
      .poll(
        async () => {
          if (child.exitCode !== null) child = start();
          return isReady();
        },
        { timeout: 30_000, interval: 200 },
      )
      .toBe(true);
  await becomesReady();
  const journal = async () => {
    const schema = z.object({ hosts: z.array(z.looseObject({ host: z.string(), journal: z.string().nullable() })) });
    const hosts = await installation.client('local-operator').request('GET', '/v1/hosts', schema);
    return hosts.ok ? hosts.value.hosts.find(({ host }) => host === 'second')?.journal : undefined;
  };
  await expect.poll(journal, { timeout: 30_000, interval: 200 }).toMatch(/^jrn_/);
  const early = await countersign('runner', 'confirm-journal', 'second');
  expect([early.code, early.stderr]).toEqual([1, expect.stringContaining('nothing is to be confirmed')]);
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
  rmSync(file('second/journal.jsonl'));
  child = start();
  const reason = async () => {
    const hosts = await installation.client('local-operator').hosts();
    return hosts.ok ? hosts.value.find(({ host }) => host === 'second')?.reason : '';
  };
  await expect
    .poll(reason, { timeout: 30_000, interval: 200 })
    .toMatch(/journal of this host is a new one.*confirm-journal second/);
  expect(await countersign('runner', 'confirm-journal', 'second')).toMatchObject({ code: 0 });
  await becomesReady();
}, 120_000);
