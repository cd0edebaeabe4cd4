import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { CommandEnding, ToolLimits } from '../work/host-tools.ts';
import { sandboxedTools } from './sandboxed-tools.ts';

const INSTALLATION = path.resolve(fileURLToPath(import.meta.url), '../../../../..');
const isRoot = process.getuid?.() === 0;
const uid = isRoot ? 61184 : (process.getuid?.() ?? 0);
const gid = isRoot ? 61184 : (process.getgid?.() ?? 0);

const base = mkdtempSync('/var/tmp/countersign-tools-');
chmodSync(base, 0o755);

function owned(...parts: string[]): string {
  const folder = path.join(base, ...parts);
  mkdirSync(folder, { recursive: true });
  chownSync(folder, uid, gid);
  return folder;
}

function file(name: string, content: string, mode = 0o644): string {
  writeFileSync(name, content);
  chmodSync(name, mode);
  chownSync(name, uid, gid);
  return name;
}

const home = owned('home');
const tools = sandboxedTools({ runAs: isRoot ? { uid, gid, home } : null, installation: INSTALLATION });
let project: string;
let count = 0;

beforeEach(() => {
  count += 1;
  project = owned(`project-${count}`);
});

afterEach(() => {
  rmSync(project, { recursive: true, force: true });
});

afterAll(async () => {
  await tools.close();
  rmSync(base, { recursive: true, force: true });
});

const limits = (change: Partial<ToolLimits> = {}): ToolLimits => ({
  callId: 'call_1',
  sessionId: 'ses_1',
  project,
  profile: 'workspace-write',
  denyRead: [],
  denyWrite: [],
  timeoutMs: 20_000,
  signal: new AbortController().signal,
  ...change,
});

const text = (ending: CommandEnding): string =>
  ending.ending === 'sandbox_failed' ? ending.error.message : Buffer.from(ending.stdout).toString('utf8');

const bash = (command: string, change: Partial<ToolLimits> = {}) => tools.bash({ command }, limits(change));
const inside = (name: string): string => path.join(project, name);

describe('bash', () => {
  it('runs as the run account, gives the exact exit code and keeps the streams apart', async () => {
    const ending = await bash('id -u; echo oops >&2; exit 37');
    expect(ending).toMatchObject({ ending: 'exited', exitCode: 37, backend: 'bubblewrap', truncatedBytes: 0 });
    expect(text(ending)).toBe(`${uid}\n`);
    expect(ending.ending === 'exited' && Buffer.from(ending.stderr).toString()).toBe('oops\n');
  });

  it('writes the project and nothing beside it', async () => {
    const ending = await bash('echo in > kept; echo out > ../escaped && echo ESCAPED; true');
    expect(text(ending)).toBe('');
    expect(readFileSync(inside('kept'), 'utf8')).toBe('in\n');
    expect(existsSync(path.join(base, 'escaped'))).toBe(false);
  });

  it('writes nothing in the project under `read-only`', async () => {
    await bash('echo x > kept', { profile: 'read-only' });
    expect(readdirSync(project)).toEqual([]);
  });

  it('guards protected names that do not exist and leaves nothing behind', async () => {
    const attempts = ['.git', '.agents', '.foya', '.countersign'].map(
      (name) => `(echo x > ${name}/f) 2>/dev/null && echo ESCAPED`,
    );
    expect(text(await bash(`${attempts.join('; ')}; rmdir .git 2>/dev/null && echo ESCAPED; echo ran`))).toBe('ran\n');
    expect(readdirSync(project)).toEqual([]);
  });

  it('does not remove a protected folder that was there and is empty', async () => {
    owned(`project-${count}`, '.agents');
    await bash('true');
    expect(readdirSync(project)).toEqual(['.agents']);
  });

  it('refuses a project whose `.git` is a symbolic link', async () => {
    symlinkSync('/tmp', inside('.git'));
    expect(await bash('echo ran')).toMatchObject({
      ending: 'sandbox_failed',
      error: { code: 'countersign.runner.bad_root' },
    });
  });

  it('ends the whole tree at the time limit', async () => {
    const command = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 1.5; echo late > late' &); echo up; sleep 60";
    const ending = await bash(command, { timeoutMs: 700 });
    expect(ending).toMatchObject({ ending: 'killed', killedBy: 'timeout' });
    await bash('sleep 1.5');
    expect(existsSync(inside('late'))).toBe(false);
  });

  it('ends the whole tree when it is stopped', async () => {
    const controller = new AbortController();
    setTimeout(() => controller.abort('stopped by a person'), 300);
    const ending = await bash('sleep 60', { signal: controller.signal });
    expect(ending).toMatchObject({ ending: 'killed', killedBy: 'stop' });
  });

  it('takes every process along when the runner is killed, and the next run sweeps what was guarded', async () => {
    const options = JSON.stringify({ runAs: isRoot ? { uid, gid, home } : null, installation: INSTALLATION });
    const bounds = JSON.stringify({ ...limits(), signal: undefined });
    const command = "setsid sh -c 'sleep 2; echo late > late' & touch up; sleep 60";
    const script = `const { sandboxedTools } = await import(${JSON.stringify(path.join(import.meta.dirname, 'sandboxed-tools.ts'))});
      await sandboxedTools(${options}).bash({ command: ${JSON.stringify(command)} }, { ...${bounds}, signal: new AbortController().signal });`;
    const runner = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'ignore' });
    await vi.waitUntil(() => existsSync(inside('up')), { timeout: 15_000 });
    runner.kill('SIGKILL');
    await bash('sleep 2.5');
    expect(readdirSync(project)).toEqual(['up']);
  });

  it('bounds output to head and tail and counts the rest', async () => {
    const ending = await bash('printf HEAD; head -c 1000000 /dev/zero; printf TAIL');
    expect(ending).toMatchObject({ ending: 'exited', truncatedBytes: 1_000_008 - 30_000 });
    expect(text(ending).slice(0, 4) + text(ending).slice(-4)).toBe('HEADTAIL');
  });

  it('hands out pipes that can be opened by name', async () => {
    expect(text(await bash('echo hi > /dev/stdout'))).toBe('hi\n');
  });

  it('hides what a read rule covers, by path and by wildcard', async () => {
    file(inside('.env'), 'SECRET');
    const secret = file(path.join(base, 'key'), 'SECRET');
    const vault = owned('vault');
    file(path.join(vault, 'deep'), 'SECRET');
    const ending = await bash(`cat .env ${secret} ${vault}/deep; echo x > .env; echo x > ${vault}/new; echo ran`, {
      denyRead: ['**/.env', secret, `${vault}/**`],
    });
    expect(text(ending)).toBe('ran\n');
    expect(readFileSync(inside('.env'), 'utf8')).toBe('SECRET');
  });

  it.each(['*/token', '*/tok?n', '**/token'])(
    'hides what `%s` covers in a folder outside the project',
    async (rule) => {
      const folder = owned('apps', 'one');
      file(path.join(folder, 'token'), 'SECRET');
      file(path.join(folder, 'plain'), 'shown');
      const denyRead = [path.join(base, 'apps', rule)];
      expect(text(await bash(`cat ${folder}/token; cat ${folder}/plain`, { denyRead }))).toBe('shown');
    },
  );

  it('hides folders of other homes that a rule names by a wildcard', async () => {
    const folder = owned('homes', 'one', '.ssh');
    file(path.join(folder, 'key'), 'SECRET');
    const denyRead = [path.join(base, 'homes', '*', '.ssh', '**')];
    expect(text(await bash(`cat ${folder}/key; echo ran`, { denyRead }))).toBe('ran\n');
  });

  it.runIf(isRoot)('refuses a project that its account cannot reach, under every profile', async () => {
    chownSync(project, 0, 0);
    for (const mode of [0o755, 0o700]) {
      chmodSync(project, mode);
      for (const profile of ['workspace-write', 'read-only']) {
        const error = { code: 'countersign.runner.bad_owner' };
        expect(await bash('echo ran', { profile })).toMatchObject({ ending: 'sandbox_failed', error });
      }
    }
    const below = owned(`project-${count}`, 'below');
    expect(await bash('echo ran', { project: below })).toMatchObject({ ending: 'sandbox_failed' });
  });

  it('keeps what a write rule covers as it is, also when it does not exist', async () => {
    file(inside('lock'), 'kept');
    const denyWrite = [inside('lock'), inside('missing/file')];
    await bash('echo x > lock; mkdir -p missing; echo x > missing/file', { denyWrite });
    expect(readFileSync(inside('lock'), 'utf8')).toBe('kept');
    expect(readdirSync(project)).toEqual(['lock']);
  });

  it('moves away and reports a new file that a wildcard write rule forbids', async () => {
    const ending = await bash('echo x > new.pem', { denyWrite: ['*.pem'] });
    expect(ending).toMatchObject({ violations: [`write rule: \`${inside('new.pem')}\` moved to quarantine`] });
    expect(existsSync(inside('new.pem'))).toBe(false);
  });

  it('refuses a profile that does not exist', async () => {
    expect(await bash('echo ran', { profile: 'made-up' })).toMatchObject({
      ending: 'sandbox_failed',
      error: { code: 'countersign.runner.profile_refused' },
    });
  });

  it('refuses `full-access` in hardened mode', async () => {
    const ending = await bash('echo ran', { profile: 'full-access', hardened: true });
    expect(ending).toMatchObject({ ending: 'sandbox_failed', error: { code: 'countersign.runner.profile_refused' } });
  });

  it('passes the variables that the order names, and none of the product', async () => {
    process.env.SANDBOX_TEST_PASSED = 'passed';
    process.env.COUNTERSIGN_TEST_HIDDEN = 'hidden';
    const names = { environmentNames: ['SANDBOX_TEST_*', 'COUNTERSIGN_*'] };
    const ending = await bash('echo "$SANDBOX_TEST_PASSED/$COUNTERSIGN_TEST_HIDDEN/$HOME"', names);
    expect(text(ending)).toBe(`passed//${home}\n`);
  });

  it('reports what the proxy refused to a networked command, in hops and violations', async () => {
    const ask = 'curl -s --max-time 5 https://10.0.0.1/';
    const ending = await bash(ask, { profile: 'networked', hosts: ['example.com'] });
    expect(ending).toMatchObject({
      violations: ['network: `10.0.0.1:443` is not among the allowed hosts'],
      egress: ['connect `10.0.0.1:443` refused: is not among the allowed hosts'],
    });
  });

  it('refuses a project that became a link', async () => {
    const link = path.join(base, `link-${count}`);
    symlinkSync(project, link);
    lchownSync(link, uid, gid);
    expect(await bash('echo ran', { project: link })).toMatchObject({ error: { code: 'countersign.runner.bad_root' } });
  });

  it.runIf(isRoot)('refuses a project of another account', async () => {
    chownSync(project, 61185, 61185);
    expect(await bash('echo ran')).toMatchObject({ error: { code: 'countersign.runner.bad_owner' } });
  });

  it('passes the self-test', async () => {
    const { backends, reason } = await tools.selfTest();
    expect([backends.includes('bubblewrap'), reason]).toEqual([true, '']);
  });
});

describe('file tools', () => {
  it('read what is there and refuse what a mask covers, also through a link', async () => {
    file(inside('a'), 'content');
    const secret = file(path.join(base, 'secret'), 'SECRET');
    symlinkSync(secret, inside('way'));
    const answer = await tools.read({ path: 'a' }, limits());
    expect(answer.ok && Buffer.from(answer.value).toString()).toBe('content');
    const refused = await tools.read({ path: 'way' }, limits({ denyRead: [secret] }));
    expect(refused).toMatchObject({ ok: false, error: { code: 'countersign.runner.private_path' } });
  });

  it.each([
    ['the environment of a process', '/proc/self/environ'],
    ['the root of a process', '/proc/self/root/proc/self/status'],
    ['the state of the sandboxes', '~/.local/state/countersign-sandbox/empty'],
  ])('refuse to read or show %s', async (_, target) => {
    const code = 'countersign.runner.private_path';
    const where = { project, denyRead: [], denyWrite: [], pathsOnly: false };
    expect(await tools.read({ path: target }, limits())).toMatchObject({ ok: false, error: { code } });
    expect(await tools.inspect({ tool: 'read', args: { path: target } }, where)).toMatchObject({ error: { code } });
    expect(await tools.facts([target], where)).toMatchObject({ error: { code } });
  });

  it.each([
    ['the root', '/'],
    ['the home', home],
    ['a system folder', '/etc'],
    ['the running installation', INSTALLATION],
  ])('refuse %s as a project, and so do commands', async (_, folder) => {
    const error = { code: 'countersign.runner.bad_root' };
    const change = { project: folder };
    expect(await tools.read({ path: 'a' }, limits(change))).toMatchObject({ error });
    expect(await tools.change({ tool: 'write', args: { path: 'a', content: '' } }, limits(change))).toMatchObject({
      error,
    });
    expect(await bash('echo ran', change)).toMatchObject({ ending: 'sandbox_failed', error });
  });

  it.runIf(isRoot)('refuse a project of another account', async () => {
    chownSync(project, 0, 0);
    const error = { code: 'countersign.runner.bad_owner' };
    const where = { project, denyRead: [], denyWrite: [], pathsOnly: true };
    expect(await tools.read({ path: 'a' }, limits())).toMatchObject({ error });
    expect(await tools.inspect({ tool: 'read', args: { path: 'a' } }, where)).toMatchObject({ error });
  });

  it('refuse to write the folder that a git file names', async () => {
    mkdirSync(inside('hidden'));
    file(inside('.git'), 'gitdir: hidden');
    const answer = await tools.change({ tool: 'write', args: { path: 'hidden/config', content: 'x' } }, limits());
    expect(answer).toMatchObject({ error: { code: 'countersign.runner.private_path' } });
  });

  it('leave the file as it was when the call was stopped before', async () => {
    file(inside('a'), 'old');
    const answer = await tools.change(
      { tool: 'write', args: { path: 'a', content: 'new' } },
      limits({ signal: AbortSignal.abort('stop') }),
    );
    expect([answer.ok, readFileSync(inside('a'), 'utf8'), readdirSync(project)]).toEqual([false, 'old', ['a']]);
  });

  it('write whole files, make folders and keep permissions', async () => {
    file(inside('script'), 'old', 0o750);
    expect(await tools.change({ tool: 'write', args: { path: 'script', content: 'new' } }, limits())).toMatchObject({
      ok: true,
    });
    expect(await tools.change({ tool: 'write', args: { path: 'a/b/c', content: 'deep' } }, limits())).toMatchObject({
      ok: true,
    });
    expect([readFileSync(inside('script'), 'utf8'), statSync(inside('script')).mode & 0o777]).toEqual(['new', 0o750]);
    expect([readFileSync(inside('a/b/c'), 'utf8'), statSync(inside('a/b/c')).uid]).toEqual(['deep', uid]);
    expect(readdirSync(project).sort()).toEqual(['a', 'script']);
  });

  it.each([
    ['out of the project', '../outside'],
    ['through a link to a folder outside', 'way/file'],
    ['through a link to a file outside', 'file-way'],
    ['a protected name', '.git/hooks/pre-commit'],
    ['a protected name of a nested repository', 'lib/.git/config'],
    ['what a rule forbids', 'rule.lock'],
  ])('refuse to write %s', async (_, target) => {
    const outside = owned('outside-folder');
    const victim = file(path.join(outside, 'victim'), 'safe');
    symlinkSync(outside, inside('way'));
    symlinkSync(victim, inside('file-way'));
    const answer = await tools.change(
      { tool: 'write', args: { path: target, content: 'x' } },
      limits({ denyWrite: ['*.lock'] }),
    );
    expect(answer).toMatchObject({ ok: false, error: { code: 'countersign.runner.private_path' } });
    expect([readFileSync(victim, 'utf8'), readdirSync(outside)]).toEqual(['safe', ['victim']]);
    expect(readdirSync(project).sort()).toEqual(['file-way', 'way']);
  });

  it('show the diff of a write and change nothing', async () => {
    file(inside('a'), 'one\ntwo\n');
    const where = { project, denyRead: [], denyWrite: [], pathsOnly: false };
    const answer = await tools.inspect({ tool: 'write', args: { path: 'a', content: 'one\nthree\n' } }, where);
    const contentDigest = new Uint8Array(createHash('sha256').update('one\ntwo\n').digest());
    expect(
      answer.ok && answer.value.paths.map((fact) => ({ ...fact, contentDigest: new Uint8Array(fact.contentDigest) })),
    ).toEqual([{ path: inside('a'), realPath: inside('a'), exists: true, contentDigest }]);
    expect(answer.ok && answer.value.diff).toContain('-two\n+three\n');
    expect(readFileSync(inside('a'), 'utf8')).toBe('one\ntwo\n');
  });

  it('name where a new file would come to lie, through links', async () => {
    mkdirSync(inside('real'));
    symlinkSync('real', inside('alias'));
    const where = { project, denyRead: [], denyWrite: [], pathsOnly: true };
    const answer = await tools.inspect({ tool: 'write', args: { path: 'alias/new', content: '' } }, where);
    expect(answer).toMatchObject({
      ok: true,
      value: { paths: [{ realPath: inside('real/new'), exists: false }], diff: '' },
    });
  });

  it('do not let a file name forge lines of the diff', async () => {
    const where = { project, denyRead: [], denyWrite: [], pathsOnly: false };
    const answer = await tools.inspect({ tool: 'write', args: { path: 'a\n+forged', content: 'x' } }, where);
    expect(answer.ok && answer.value.diff.split('\n').some((line) => line.startsWith('+forged'))).toBe(false);
  });
});
