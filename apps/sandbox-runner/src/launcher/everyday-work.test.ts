import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeEach, expect, it } from 'vitest';
import { isRoot, stdoutOf, ToolsUnderTest, uid } from './testing/tools-under-test.ts';

const host = new ToolsUnderTest();
let project: string;

beforeEach(() => {
  project = host.project();
});
afterAll(() => host.close());

const run = (command: string, denyRead: readonly string[] = []) =>
  host.tools.bash({ command }, host.limits(project, { denyRead, timeoutMs: 60_000 }));
const git = (folder: string, ...args: string[]) =>
  execFileSync('git', ['-C', folder, '-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], {
    ...(isRoot ? { uid, gid: uid } : {}),
    env: { HOME: host.home, PATH: process.env.PATH ?? '' },
    encoding: 'utf8',
  });

it('names the metadata folder when git in a linked worktree may not write it', async () => {
  host.file(path.join(project, 'a'), 'one\n');
  for (const args of [
    ['init', '-q'],
    ['add', '.'],
    ['commit', '-qm', 'first'],
  ])
    git(project, ...args);
  const linked = path.join(host.folder('trees'), 'linked');
  git(project, 'worktree', 'add', '-q', linked);
  const text = 'echo two >> a && git status --porcelain && git add a && git commit -qm second';
  const ending = await host.tools.bash({ command: text }, host.limits(linked));
  expect(stdoutOf(ending)).toContain(' M a');
  expect(ending).toMatchObject({
    exitCode: 128,
    violations: [
      `write: \`${project}/.git\` is protected and read-only for commands; a person changes it outside of them`,
    ],
  });
  const plain = await run('git add a 2>&1 | tail -1; touch .agents/x; true');
  expect(plain).toMatchObject({
    exitCode: 0,
    violations: [expect.stringContaining(`\`${project}/.git\``), expect.stringContaining(`\`${project}/.agents\``)],
  });
});

it('gives a package manager a cache that it can write, tells the exit code of the shell and what the pipe hid', async () => {
  const npm = 'npm exec --no --offline -- prettier --version 2>&1 | tail -20';
  const where = stdoutOf(await run('npm config get cache; touch "$(npm config get cache)/ok" && echo written'));
  expect(where).toBe(`${host.home}/.cache/npm\nwritten\n`);
  for (const command of [npm, `unset HOME; ${npm}`]) {
    const ending = await run(command);
    expect(ending).toMatchObject({ ending: 'exited', exitCode: 0 });
    expect(stdoutOf(ending)).toContain('npm error');
    expect(stdoutOf(ending)).not.toMatch(/EROFS|EACCES|read-only/i);
  }
  expect(await run(npm.replace(/ \| tail.*/, ''))).toMatchObject({ ending: 'exited', exitCode: 1 });
});

it('lets no list of a rebase and no message of a commit be taken as read, and waits for no password', async () => {
  const steps = [
    'git init -q r && cd r && git config user.name t && git config user.email t@example.com',
    'for i in 1 2 3; do echo $i > f && git add f && git commit -qm "c$i"; done; before=$(git log --format=%s)',
    'git rebase -i HEAD~2 >/dev/null 2>&1; echo "list $?"',
    'git rebase --abort 2>/dev/null; git checkout -qb side HEAD~1; echo other > f; git commit -qam side',
    'git rebase main >/dev/null 2>&1 || git rebase master >/dev/null 2>&1; echo mixed > f; git add f',
    'git rebase --continue >/dev/null 2>&1; echo "continue $?"; git rebase --abort',
    'echo more > f; git commit -qa >/dev/null 2>&1; echo "commit $?"',
    '[ "$before" = "$(git log --format=%s main 2>/dev/null || git log --format=%s master)" ] && echo kept',
    'sudo -S true >/dev/null 2>&1; [ $? != 0 ] && echo no password',
  ];
  expect(stdoutOf(await run(steps.join('\n')))).toBe('list 1\ncontinue 1\ncommit 1\nkept\nno password\n');
});

it('goes on serving other requests, in bounded memory, while one command prints 700 MB and another binary noise', async () => {
  host.file(path.join(project, 'a'), 'content');
  const resident = () => {
    const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').split(' ').filter(Boolean);
    const sizes = children.map((pid) => /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
    return Math.max(...sizes.map(Number));
  };
  await run('true');
  const before = resident();
  let flowing = true;
  const floods = Promise.all([
    run('yes | head -c 700000000; exit 3'),
    run('head -c 50000000 /dev/urandom; exit 4'),
  ]).finally(() => {
    flowing = false;
  });
  const answers: string[] = [];
  while (flowing) {
    const read = await host.tools.read({ path: 'a' }, host.limits(project));
    answers.push(read.ok ? Buffer.from(read.value).toString() : read.error.message, stdoutOf(await run('echo ok')));
  }
  const [yes, noise] = await floods;
  expect([yes, noise]).toMatchObject([
    { ending: 'exited', exitCode: 3, truncatedBytes: 700_000_000 - 30_000 },
    { ending: 'exited', exitCode: 4, truncatedBytes: 50_000_000 - 30_000 },
  ]);
  expect(new Set(answers)).toEqual(new Set(['content', 'ok\n']));
  expect(answers.length).toBeGreaterThanOrEqual(4);
  expect(resident() - before).toBeLessThan(128 * 1024);
}, 120_000);

it('judges a path by its name and by where it leads, in tools and commands, and gives no false alarm below a link', async () => {
  const shared = host.folder('shared');
  symlinkSync('/etc/hosts', path.join(project, 'hosts.txt'));
  symlinkSync(shared, path.join(project, 'outbox'));
  const content = readFileSync('/etc/hosts', 'utf8');
  for (const rule of ['/etc/hosts', '/etc/hos*', 'hosts.txt', './hosts.txt', '**/hosts.txt']) {
    const refused = await host.tools.read({ path: 'hosts.txt' }, host.limits(project, { denyRead: [rule] }));
    expect([rule, refused]).toMatchObject([rule, { error: { code: 'countersign.runner.private_path' } }]);
    expect([rule, stdoutOf(await run('cat hosts.txt', [rule]))]).toEqual([rule, '']);
  }
  expect(stdoutOf(await run('cat hosts.txt'))).toBe(content);
  const outside = { tool: 'write', args: { path: 'outbox/a', content: 'x' } } as const;
  expect(await host.tools.change(outside, host.limits(project))).toMatchObject({ ok: false });
  expect([stdoutOf(await run('echo x > outbox/a')), readdirSync(shared)]).toEqual(['', []]);
  mkdirSync(path.join(project, 'real'));
  symlinkSync('real', path.join(project, 'alias'));
  if (isRoot) execFileSync('chown', ['-R', String(uid), project]);
  const inside = { tool: 'write', args: { path: 'alias/new', content: 'x' } } as const;
  expect(await host.tools.change(inside, host.limits(project, { denyRead: ['/etc/**'] }))).toMatchObject({ ok: true });
  expect(existsSync(path.join(project, 'real/new'))).toBe(true);
});

it('refuses a pipe, a device, a socket and a folder at once, and copes with any name and a full folder', async () => {
  execFileSync('mkfifo', [path.join(project, 'pipe')]);
  symlinkSync('/dev/zero', path.join(project, 'zero'));
  symlinkSync('/dev/tty', path.join(project, 'tty'));
  mkdirSync(path.join(project, 'folder'));
  if (isRoot) execFileSync('chown', ['-R', String(uid), project]);
  for (const name of ['pipe', 'zero', 'tty', 'folder', '.']) {
    const limits = host.limits(project);
    const all = [
      await host.tools.read({ path: name }, limits),
      await host.tools.change({ tool: 'edit', args: { path: name, oldText: 'a', newText: 'b' } }, limits),
      await host.tools.change({ tool: 'write', args: { path: name, content: 'b' } }, limits),
      await host.tools.change({ tool: 'delete', args: { path: name } }, limits),
    ];
    expect([name, all.map(({ ok }) => ok)]).toEqual([name, [false, false, false, false]]);
  }
  for (const name of ['new\nline', 'tab\t', '-rf', ' ', 'quo\'te"$(touch pwned)`', 'é́', 'a'.repeat(255)]) {
    const limits = host.limits(project);
    const made = await host.tools.change({ tool: 'write', args: { path: `./${name}`, content: 'odd\n' } }, limits);
    expect([name, made.ok]).toEqual([name, true]);
    const read = await host.tools.read({ path: `./${name}` }, limits);
    expect(read.ok && Buffer.from(read.value).toString()).toBe('odd\n');
    const found = await host.tools.search({ pattern: 'odd', path: '.' }, limits);
    expect([name, found.ok]).toEqual([name, true]);
    expect(await host.tools.change({ tool: 'delete', args: { path: `./${name}` } }, limits)).toMatchObject({
      ok: true,
    });
  }
  const full = path.join(project, 'folder');
  for (let index = 0; index < 20_000; index += 1) writeFileSync(path.join(full, `f${index}`), '');
  const { ending } = await run('ls folder | wc -l');
  expect(ending).toBe('exited');
  expect(existsSync(path.join(project, 'pwned'))).toBe(false);
});
