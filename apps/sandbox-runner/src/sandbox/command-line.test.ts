import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { asAccount } from './run-account.ts';

const ENTRY = fileURLToPath(new URL('../sandbox-command.ts', import.meta.url));
const isRoot = process.getuid?.() === 0;
const uid = isRoot ? 61184 : (process.getuid?.() ?? 0);
const gid = isRoot ? 61184 : (process.getgid?.() ?? 0);
const base = mkdtempSync('/var/tmp/countersign-command-');
const home = path.join(base, 'home');
const project = path.join(base, 'project');

function own(folder: string): void {
  mkdirSync(folder, { recursive: true });
  chownSync(folder, uid, gid);
}

beforeAll(() => {
  chmodSync(base, 0o755);
  own(home);
  own(project);
});

afterAll(() => rmSync(base, { recursive: true, force: true }));

/** Runs a program as an ordinary account with a home of its own. */
function run(command: readonly string[], input = '') {
  const [program, args] = isRoot
    ? asAccount({ uid, gid, home }, command)
    : [command[0] as string, [...command.slice(1)]];
  const env = { HOME: home, PATH: '/usr/local/bin:/usr/bin:/bin' };
  return spawnSync(program, args, { cwd: project, env, input, encoding: 'utf8', timeout: 25_000 });
}

const sandbox = (args: readonly string[], input?: string) => run([process.execPath, ENTRY, ...args], input);
const shell = (text: string, input?: string) => sandbox(['exec', '--project', project, '--', 'sh', '-c', text], input);

describe('the sandbox command', () => {
  it.each([0, 1, 37, 125, 255])('exits as the command does: %i', (code) => {
    expect(shell(`exit ${code}`).status).toBe(code);
  });

  it('tells the death of a command by a signal as a shell would', () => {
    expect(shell('kill -SEGV $$').status).toBe(139);
  });

  it('passes standard input on and keeps the output streams apart', () => {
    const { stdout, stderr } = shell('cat; echo oops >&2', 'hello');
    expect([stdout, stderr]).toEqual(['hello', 'oops\n']);
  });

  it('stops a write outside the project', () => {
    const { stdout } = shell('echo x > ../outside && echo ESCAPED; echo x > "$HOME/outside" && echo ESCAPED; true');
    expect([stdout, existsSync(path.join(base, 'outside')), existsSync(path.join(home, 'outside'))]).toEqual([
      '',
      false,
      false,
    ]);
  });

  it('does not let `.git` be written, renamed or replaced', () => {
    const git = path.join(project, '.git');
    own(git);
    writeFileSync(path.join(git, 'config'), 'kept');
    const attempts = ['echo x > .git/config', 'mkdir .git/hooks', 'mv .git gone', 'rm -rf .git && test ! -e .git'];
    const { stdout } = shell(attempts.map((text) => `(${text}) 2>/dev/null && echo ESCAPED`).join('; '));
    expect([stdout, readdirSync(git)]).toEqual(['', ['config']]);
    rmSync(git, { recursive: true });
  });

  it('keeps masked keys unreadable, by their own account too', () => {
    const keys = path.join(base, 'private');
    own(keys);
    writeFileSync(path.join(keys, 'key'), 'SECRET');
    const read = `cat ${keys}/key; ls -A ${keys}; cat /proc/1/root${keys}/key`;
    const { stdout } = sandbox(['exec', '--project', project, '--mask', keys, '--', 'sh', '-c', read]);
    expect(stdout).toBe('');
  });

  it('reaches no port of the host', async () => {
    const server = createServer((socket) => socket.end('REACHED'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' && address ? address.port : 0;
    const { status } = sandbox(['exec', '--', 'bash', '-c', `exec 3<>/dev/tcp/127.0.0.1/${port}`]);
    server.close();
    expect(status).toBe(1);
  });

  it('leaves nothing in the project', () => {
    shell('true');
    expect(readdirSync(project)).toEqual([]);
  });

  it.each(['/', '/etc', home])('refuses `%s` as a project', (folder) => {
    const { status, stdout, stderr } = sandbox(['exec', '--project', folder, '--', 'echo', 'RAN']);
    expect([status, stdout]).toEqual([125, '']);
    expect(stderr).toContain('countersign.runner.bad_root');
  });

  it.each([
    ['--profile', 'made-up'],
    ['--profile', 'full-access', '--hardened'],
  ])('refuses `%s %s`', (...options) => {
    const { status, stdout, stderr } = sandbox(['exec', ...options, '--', 'echo', 'RAN']);
    expect([status, stdout]).toEqual([125, '']);
    expect(stderr).toContain('countersign.runner.profile_refused');
  });

  it('refuses clearly where bubblewrap is missing, and runs nothing', () => {
    const bare = ['/usr/bin/bwrap', '--unshare-user', '--dev-bind', '/', '/', '--tmpfs', '/usr/bin', '--'];
    const { status, stdout, stderr } = run([...bare, process.execPath, ENTRY, 'exec', '--', '/bin/echo', 'RAN']);
    expect([status, stdout]).toEqual([125, '']);
    expect(stderr).toContain('`/usr/bin/bwrap` is not installed; install bubblewrap');
    expect(stderr).toContain('countersign.runner.sandbox_unavailable');
  });

  it.runIf(isRoot)('runs nothing as root', () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [ENTRY, 'exec', '--', 'echo', 'RAN'], {
      cwd: project,
      env: { HOME: home, PATH: process.env.PATH },
      encoding: 'utf8',
    });
    expect([status, stdout]).toEqual([125, '']);
    expect(stderr).toContain('countersign.runner.bad_owner');
  });

  it('shows its argv without a command being run', () => {
    const { status, stdout } = sandbox(['argv', '--project', project, '--', 'touch', 'made']);
    const { argv } = JSON.parse(stdout) as { argv: string[] };
    expect(status).toBe(0);
    expect(argv).toEqual(expect.arrayContaining(['/usr/bin/bwrap', '--unshare-net', '--seccomp']));
    expect(readdirSync(project)).toEqual([]);
  });
});
