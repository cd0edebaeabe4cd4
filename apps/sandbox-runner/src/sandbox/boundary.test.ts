import { once } from 'node:events';
import { chmodSync, existsSync, lchownSync, linkSync, readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { PROFILES, REFUSED_SYSCALLS } from '@countersign/sandbox';
import { afterAll, describe, expect, it } from 'vitest';
import { sandboxedTools } from '../launcher/sandboxed-tools.ts';
import { attempts, CommandUnderTest } from './testing/command-under-test.ts';

const under = new CommandUnderTest();
afterAll(() => under.close());

const INSTALLATION = path.resolve(fileURLToPath(import.meta.url), '../../../../..');

/** Numbers of the processes that have the text in their arguments. */
function processesNaming(text: string): string[] {
  return readdirSync('/proc').filter((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(text);
    } catch {
      return false;
    }
  });
}

const state = path.join(under.home, '.local/state/countersign/abc123');
const elsewhere = path.join(under.base, 'elsewhere');

function ownState(): string[] {
  under.file(path.join(under.home, '.local/state/countersign/data-folders'), `${elsewhere}\n`);
  return [
    under.file(path.join(state, 'private/keys/host-local.json')),
    under.file(path.join(state, 'private/journal.jsonl')),
    under.file(path.join(state, 'private/config/gateway.json')),
    under.file(path.join(state, 'database/password')),
    under.file(path.join(state, 'run-account.json')),
    under.file(path.join(elsewhere, 'private/keys/root.json')),
    under.file(path.join(under.home, '.config/countersign/token')),
  ];
}

describe('our own state', () => {
  const secrets = ownState();
  const visible = under.file(path.join(state, 'projects/sample/notes.txt'), 'VISIBLE');

  it.each(PROFILES)('cannot be read, written, linked or moved away in `%s`', async (profile) => {
    const project = under.project();
    const reads = secrets.map((file) => `cat '${file}' '/proc/self/root${file}' '/proc/1/root${file}'; true`);
    const steps = secrets.flatMap((file) => [
      `echo x >> '${file}'`,
      `echo x > '${state}/private/keys/new'`,
      `echo x > '${state}/private/new'`,
      `ln '${file}' '${project}/link'`,
    ]);
    const moves = [`mv '${state}/private' '${project}/moved'`, `mv '${state}/private/keys' '${project}/moved'`];
    const text = `cat '${visible}'; ${reads.join('\n')}\n${attempts([...steps, ...moves])}; ls -AR '${state}/private'`;
    const { stdout } = await under.shell(project, text, ['--profile', profile]);
    expect(stdout).not.toContain('SECRET');
    expect(stdout).not.toContain('ESCAPED');
    expect(stdout).toContain('VISIBLE');
    expect(secrets.map((file) => readFileSync(file, 'utf8'))).toEqual(secrets.map(() => 'SECRET'));
  });

  it('is no variable of any profile', async () => {
    const env = { COUNTERSIGN_TOKEN: 'SECRET', COUNTERSIGN_CONFIG: '/SECRET', NODE_OPTIONS: '' };
    for (const profile of ['workspace-write', 'full-access']) {
      const args = [
        'exec',
        '--project',
        under.project(),
        '--profile',
        profile,
        '--',
        'sh',
        '-c',
        'env; cat /proc/*/environ',
      ];
      const { stdout } = await under.sandbox(args, { env });
      expect(stdout).toContain('PATH=');
      expect(stdout).not.toContain('SECRET');
    }
  });
});

describe('path rules', () => {
  it('hide what a read rule names: literal, by wildcard, and outside the project', async () => {
    const project = under.project();
    const files = ['.env', 'sub/deep/.env', 'keys/a.pem'].map((name) => under.file(path.join(project, name)));
    const outside = under.file(path.join(under.home, '.aws/credentials'));
    const rules = ['*.env', '.env', 'keys/**', '~/.aws/**', '~/.absent/**'].flatMap((rule) => ['--deny-read', rule]);
    const text = [...files, outside].map((file) => `cat '${file}'`).join('; ');
    const { stdout, status } = await under.shell(
      project,
      `${text}; ls keys; echo x > .env && echo ESCAPED; true`,
      rules,
    );
    expect([stdout, status]).toEqual(['', 0]);
    expect(files.map((file) => statSync(file).isFile())).toEqual([true, true, true]);
  });

  it('hold what a write rule names: existing, missing, and in the temp and cache folders', async () => {
    const project = under.project();
    const existing = under.file(path.join(project, 'config/prod.yaml'), 'kept');
    const rules = ['config/prod.yaml', './deploy', './missing.txt', '~/.cache/npm/rc'].flatMap((rule) => [
      '--deny-write',
      rule.replace(/\/$/, ''),
    ]);
    const steps = [
      ...[
        'echo x > config/prod.yaml',
        'rm config/prod.yaml',
        'mv config other',
        'echo x > missing.txt',
        'mkdir -p deploy/x',
      ],
      ...['ln -s /tmp deploy', 'mkdir d2 && mv -T d2 deploy', 'mkdir -p ~/.cache/npm && echo x > ~/.cache/npm/rc'],
    ];
    const { stdout } = await under.shell(project, attempts(steps), rules);
    expect(stdout).toBe('');
    expect(readFileSync(existing, 'utf8')).toBe('kept');
    expect(readdirSync(project).filter((name) => name !== 'd2')).toEqual(['config']);
  });

  it('move new files that match a write rule to quarantine and say so', async () => {
    const project = under.project();
    const old = under.file(path.join(project, 'old.pem'), 'kept');
    const made = 'mkdir -p a/b; echo x > a/b/new.pem; echo x > new.pem; ln -s /etc/passwd link.pem; echo x > fine.txt';
    const { stderr, status } = await under.shell(project, `${made}; echo x > old.pem`, ['--deny-write', '*.pem']);
    expect(status).not.toBe(0);
    expect(stderr.match(/moved to quarantine/g)?.length).toBe(3);
    expect(readFileSync(old, 'utf8')).toBe('kept');
    expect(readdirSync(project).sort()).toEqual(['a', 'fine.txt', 'old.pem']);
  });

  it('tell of what could not be looked through after a command, which did run', async () => {
    const project = under.project();
    const text = 'touch a.pem; mkdir "$(printf \'odd\\377\')"; exit 3';
    const { stderr, status } = await under.shell(project, text, ['--deny-write', '*.pem']);
    expect(status).toBe(3);
    expect(stderr).toContain('write rule: not everything could be looked through');
    const next = await under.shell(project, 'echo RAN');
    expect([next.status, next.stdout]).toEqual([125, '']);
  });
});

describe('protected names', () => {
  it('are held in every project of the account that a run can reach', async () => {
    const outer = under.project();
    const nested = under.folder(path.join(outer, 'packages/inner'));
    const cached = under.folder(path.join(under.home, '.cache/other'));
    for (const project of [nested, cached]) await under.shell(project, 'true');
    const steps = [nested, cached].flatMap((project) => [
      `mkdir '${project}/.git'`,
      `mkdir -p '${project}/.agents/hooks'`,
      `echo x > '${project}/.countersign'`,
      `mv '${project}' '${project}-2'`,
    ]);
    const { stdout, stderr } = await under.shell(outer, attempts([...steps, `mv packages p2`, 'git init -q .']));
    expect([stdout, stderr]).toEqual(['', '']);
    expect([outer, nested, cached].map((project) => readdirSync(project))).toEqual([['packages'], [], []]);
  });

  it('refuse a run when one of them is a symbolic link', async () => {
    const project = under.project();
    symlinkSync(under.folder('aimed'), path.join(project, '.agents'));
    lchownSync(path.join(project, '.agents'), under.uid, under.gid);
    const { status, stdout, stderr } = await under.shell(project, 'echo RAN');
    expect([status, stdout]).toEqual([125, '']);
    expect(stderr).toContain('is a symbolic link');
  });

  it('are held by `git init`, renames and links while many runs come and go, and nothing is left behind', async () => {
    const project = under.project();
    const steps = [
      'git init -q .',
      'mkdir .git',
      'ln -sT /x .foya',
      'mkdir e$$ && mv -T e$$ .agents',
      'echo x > .countersign',
    ];
    const again = `for i in 1 2 3 4 5 6; do ${attempts(steps)}; sleep 0.05; done; rm -rf e*`;
    const runs = await Promise.all(
      Array.from({ length: 6 }, (_, index) => under.shell(project, index % 2 ? 'true' : again)),
    );
    expect(runs.map(({ stdout, status }) => [stdout, status])).toEqual(runs.map(() => ['', 0]));
    expect(readdirSync(project)).toEqual([]);
  });

  it('survive the kill of a run: its placeholders go with the next one', async () => {
    const project = under.project();
    const child = under.start(under.command(['exec', '--project', project, '--', 'sh', '-c', 'touch up; sleep 60']));
    await expect.poll(() => existsSync(path.join(project, 'up')), { timeout: 20_000 }).toBe(true);
    child.kill('SIGKILL');
    await new Promise((resolve) => child.once('close', resolve));
    await under.shell(project, 'true');
    expect(readdirSync(project)).toEqual(['up']);
  });

  it('leave nothing running when the starter is killed before bubblewrap tied itself to it', async () => {
    const project = under.project();
    const starter = path.join(import.meta.dirname, 'testing/killed-starter.ts');
    const text = `touch ${project}/ran; sleep 60`;
    const child = under.start([process.execPath, starter, project, INSTALLATION, text]);
    const [, signal] = await once(child, 'close');
    expect(signal).toBe('SIGKILL');
    await expect.poll(() => processesNaming(project), { timeout: 20_000 }).toEqual([]);
    expect(existsSync(path.join(project, 'ran'))).toBe(false);
  });

  it('leave an idle bubblewrap at most until the next start of a runner, which takes no living one along', async () => {
    const project = under.project();
    const shown = await under.sandbox(['argv', '--project', project, '--', 'true']);
    const { argv } = JSON.parse(shown.stdout) as { argv: string[] };
    const at = argv.indexOf('/usr/bin/bwrap') + 1;
    const blocked = [...argv.slice(0, at), '--userns-block-fd', '8', '--info-fd', '9', ...argv.slice(at)].filter(
      // It cannot be had together with the option that keeps the first process waiting.
      (option) => option !== '--disable-userns',
    );
    const text =
      'cd "$1" && mkfifo p && exec 3</dev/null 4>/dev/null 5</dev/null 8<>p 9>/dev/null && shift && exec "$@"';
    const living = under.start(under.command(['exec', '--project', project, '--', 'sh', '-c', 'touch up; sleep 60']));
    await expect.poll(() => existsSync(path.join(project, 'up')), { timeout: 20_000 }).toBe(true);
    const left = under.start(['/bin/sh', '-c', text, 'sh', project, ...blocked]);
    const idle = () => {
      const all = processesNaming('--userns-block-fd');
      return all.filter((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(project));
    };
    await expect.poll(() => idle().length, { timeout: 20_000 }).toBe(2);
    left.kill('SIGKILL');
    await once(left, 'exit');
    expect(idle().length).toBe(1);
    const runAs = under.isRoot ? { uid: under.uid, gid: under.gid, home: under.home } : null;
    const tools = sandboxedTools({ runAs, installation: INSTALLATION });
    expect((await tools.selfTest()).reason).toBe('');
    await expect.poll(() => idle().length, { timeout: 20_000 }).toBe(0);
    expect(living.exitCode).toBe(null);
    living.kill('SIGTERM');
    await tools.close();
  });

  it('let git find the repository above a project in a subfolder', async () => {
    const repository = under.project();
    await under.run(['git', '-C', repository, 'init', '-q']);
    const inner = under.folder(path.join(repository, 'packages/one'));
    const { stdout } = await under.shell(inner, 'git rev-parse --show-toplevel; git status --porcelain');
    expect(stdout).toBe(`${repository}\n`);
  });

  it('refuse a project that is or lies in one of them', async () => {
    const git = under.folder('repo/.git/modules/x');
    const { status, stderr } = await under.shell(git, 'echo RAN');
    expect(status).toBe(125);
    expect(stderr).toContain('countersign.runner.bad_root');
  });

  it('cannot be held in a folder without write permission of its own account, so that nothing runs', async () => {
    const project = under.project();
    await under.run(['chmod', '500', project]);
    const { status, stdout } = await under.shell(project, 'chmod 700 . && git init -q . && echo ESCAPED');
    await under.run(['chmod', '700', project]);
    expect([status, stdout, readdirSync(project)]).toEqual([125, '', []]);
  });
});

describe('hardened mode', () => {
  it('shows no home, key or other project, and work in the project goes on', async () => {
    const project = under.project();
    const other = under.file('other/plan.txt');
    const key = under.file(path.join(under.home, '.ssh/id_ed25519'));
    const text = `cat '${other}' '${key}' /etc/machine-id /etc/shadow; ls '${under.base}' ~; ls /home /root /srv /var/lib`;
    const work =
      'git init -q sub && gcc --version >/dev/null && python3 -c "print(41+1)" && touch "$TMPDIR/t" && rm "$TMPDIR/t"';
    const { stdout } = await under.shell(project, `(${text}) 2>/dev/null; ${work}`, ['--hardened']);
    const shown = stdout.trim().split('\n');
    expect(shown.at(-1)).toBe('42');
    expect(stdout).not.toContain('SECRET');
    expect(shown.slice(0, -1).filter((line) => /^(?!home$|project-\d+$|.*:$)./.test(line))).toEqual([]);
  });

  it('is a lock: no option and no profile undoes it', async () => {
    const args = ['exec', '--project', under.project(), '--profile', 'full-access', '--', 'echo', 'RAN'];
    const { status, stdout } = await under.sandbox(args, { env: { COUNTERSIGN_HARDENED_MODE: 'true' } });
    expect([status, stdout]).toEqual([125, '']);
  });
});

describe('the kernel', () => {
  it('answers EPERM to every call of the refused table', async () => {
    const numbers = Object.entries(REFUSED_SYSCALLS).map(([name, by]) => [
      name,
      process.arch === 'arm64' ? by.aarch64 : by['x86-64'],
    ]);
    const known = numbers.filter(([, number]) => number !== undefined);
    const script = `import ctypes, sys
l = ctypes.CDLL(None, use_errno=True)
for name, number in ${JSON.stringify(known)}:
    ctypes.set_errno(0)
    r = l.syscall(number, 0, 0, 0, 0, 0)
    print(name, r, ctypes.get_errno())`;
    for (const options of [[], ['--unix', 'mask'], ['--profile', 'full-access']]) {
      const { stdout } = await under.sandbox([
        'exec',
        '--project',
        under.project(),
        ...options,
        '--',
        '/usr/bin/python3',
        '-c',
        script,
      ]);
      expect(stdout.trim().split('\n')).toEqual(known.map(([name]) => `${name} -1 1`));
    }
  });

  it('bounds processes and gives no core file', async () => {
    const { stdout } = await under.shell(under.project(), 'ulimit -c; ulimit -p');
    expect(stdout).toBe('0\n1024\n');
  });
});

describe('AF_UNIX', () => {
  const connect = (file: string): string =>
    `python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("${file}")'`;

  it('is refused, and with masks reaches sockets of its own and none of the host', async () => {
    const project = under.project();
    const socket = `/tmp/countersign-${process.pid}.sock`;
    const server = createServer((peer) => peer.end()).listen(socket);
    await new Promise((resolve) => server.once('listening', resolve));
    chmodSync(socket, 0o777);
    const own =
      'python3 -c \'import socket; s=socket.socket(socket.AF_UNIX); s.bind("own"); s.listen(); ' +
      'socket.socket(socket.AF_UNIX).connect("own"); print("OWN")\'; rm -f own';
    const text = `(${connect(socket)}) 2>/dev/null && echo ESCAPED; (${own}) 2>/dev/null; rm -f ${socket} 2>/dev/null && echo REMOVED; true`;
    expect((await under.shell(project, text)).stdout).not.toMatch(/ESCAPED|OWN/);
    expect((await under.shell(project, text, ['--unix', 'mask'])).stdout).toBe('OWN\n');
    expect(existsSync(socket)).toBe(true);
    server.close();
  });
});

describe('folders of a run alone', () => {
  it('keep what a command leaves in temp and cache from the host', async () => {
    const project = under.project();
    const text = 'touch /tmp/left-$$ "$XDG_CACHE_HOME/left"; ls /tmp | wc -l; ls "$XDG_CACHE_HOME"';
    const { stdout } = await under.shell(project, text, ['--private-temp', '--private-cache']);
    expect(stdout).toBe('1\nleft\n');
    expect(existsSync(path.join(under.home, '.cache/left'))).toBe(false);
    expect((await under.shell(project, 'ls "$XDG_CACHE_HOME"', ['--private-cache'])).stdout).toBe('left\n');
    expect((await under.shell(under.project(), 'ls "$XDG_CACHE_HOME"', ['--private-cache'])).stdout).toBe('');
  });

  it('do not open a file of the host that was linked before, where the link leads out of a rule', async () => {
    const project = under.project();
    const secret = under.file(path.join(project, 'secret.env'));
    linkSync(secret, path.join(project, 'also.env'));
    const { stdout } = await under.shell(project, 'cat secret.env also.env', ['--deny-read', '*.env']);
    expect(stdout).toBe('');
  });
});
