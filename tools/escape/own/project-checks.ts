import { existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type Attempt, attempt, type Check, python, quoted } from './check.ts';
import { exchange, reads } from './state-checks.ts';
import { SECRET, type World } from './world.ts';

const touches: Attempt = attempt('write the project', 'touch fine');
const UNMOUNTED = 'nothing is mounted there without a sandbox';
const finds = (text: string): string => `(${text}) 2>/dev/null | grep -aq ${SECRET}`;

function sees(file: string): string | undefined {
  try {
    const found = lstatSync(file);
    if (found.isDirectory()) return readdirSync(file).join();
    return found.isFile() ? readFileSync(file, 'utf8') : '';
  } catch {
    return undefined;
  }
}

/** Ways to get a protected name, below a folder where it is missing. */
const makings = (folder: string, name: string): readonly Attempt[] => {
  const at = folder === '.' ? name : `${folder}/${name}`;
  const gone = `rm -rf ${quoted(at)}`;
  return [
    attempt(`make ${at}`, `mkdir ${at} && ${gone}`),
    attempt(`make a folder in ${at}`, `mkdir -p ${at}/hooks && ${gone}`),
    attempt(`make ${at} a file`, `(echo x > ${at}) && ${gone}`),
    attempt(`make ${at} a link`, `ln -sT /tmp ${at} && ${gone}`),
    attempt(`make ${at} a pipe`, `mkfifo ${at} && ${gone}`),
    attempt(`move a folder to ${at}`, `mkdir -p m && mv -T m ${at} && ${gone}`),
    attempt(
      `exchange a folder with ${at}`,
      `mkdir -p m; mkdir ${at} 2>/dev/null; ${exchange(at, 'm2')}; r=$?; ${gone}; [ $r = 0 ]`,
    ),
    attempt(`hard link a file to ${at}`, `touch f && ln -T f ${at} && ${gone}`),
    attempt(
      `unpack ${at}`,
      `mkdir -p u/${name} && echo x > u/${name}/policy.json && tar -cf u.tar -C u ${name} && tar -xf u.tar -C ${folder} && ${gone}`,
    ),
  ];
};

/** `.countersign` decides what an agent may do: at the root, in a nested repository, there already or not. */
const metadata: Check = {
  id: 'metadata',
  place: 'host',
  request: () => ({}),
  prepare: (world) => {
    world.file('vendor/lib/.git/HEAD', 'ref: refs/heads/main\n');
    world.file('vendor/full/.git/HEAD', 'ref: refs/heads/main\n');
    world.file('vendor/full/.countersign/policy.json', '{}\n');
    return () => undefined;
  },
  works: () => [touches, attempt('write a nested repository', 'touch vendor/lib/fine')],
  attempts: ({ project }) => {
    const kept = 'vendor/full/.countersign';
    return [
      ...makings('.', '.countersign'),
      ...makings('vendor/lib', '.countersign'),
      attempt('by an absolute path', `mkdir ${quoted(project)}/.countersign && rmdir .countersign`),
      attempt(
        'by a link to the project',
        `ln -s ${quoted(project)} self && mkdir self/.countersign && rmdir .countersign`,
      ),
      attempt('through /proc/self/cwd', 'mkdir /proc/self/cwd/.countersign && rmdir .countersign'),
      attempt('change one that is there', `echo x >> ${kept}/policy.json`),
      attempt('add to one that is there', `echo x > ${kept}/extra.json`),
      attempt('change its permissions', `chmod 777 ${kept}`),
      attempt('link its file and write', `ln ${kept}/policy.json p && echo x >> p`),
      attempt(
        'move the repository away and make it anew',
        'mv vendor/full vendor/full2 && mkdir -p vendor/full/.countersign && rm -rf vendor/full && mv vendor/full2 vendor/full',
      ),
      attempt('move the folder above', 'mv vendor vendor2 && mv vendor2 vendor'),
      attempt('move one that is there', `mv ${kept} gone && mv gone ${kept}`),
      attempt('remove one that is there', `rm -rf ${kept}`),
    ];
  },
};

const hidden = ['secret.env', 'keys/a.pem', 'conf/prod/db', 'node_modules/p/b.pem', 'line\nbreak.pem', 'sub/.env'];

/** What a read rule names, by every name and way to it. */
const denyRead: Check = {
  id: 'deny-read',
  place: 'host',
  request: () => ({ masks: ['secret.env', '*.pem', 'conf/**', '**/.env', '~/.ssh/**', '~/*_history'] }),
  prepare: (world) => {
    for (const name of hidden) world.file(name);
    world.link('to-secret', 'secret.env');
    world.link('to-conf', 'conf');
    return () => undefined;
  },
  works: () => [touches],
  attempts: ({ project, home }) => [
    ...hidden.map((name) => attempt(`read ${JSON.stringify(name)}`, reads(name))),
    attempt('read outside the project', reads(`${home}/.ssh/id_ed25519`)),
    attempt('read outside by a wildcard', reads(`${home}/.bash_history`)),
    attempt('through a link that was there', `${reads('to-secret')} || ${reads('to-conf/prod/db')}`),
    attempt('through a new link', `ln -s conf/prod n && ${reads('n/db')}`),
    attempt('through /proc/self/root', reads(`/proc/self/root${project}/secret.env`)),
    attempt('through /proc/self/cwd', reads('/proc/self/cwd/keys/a.pem')),
    attempt(
      'through a descriptor of its folder',
      python(`import os
d = os.open("keys", os.O_PATH); assert b"sekret" in os.read(os.open("a.pem", os.O_RDONLY, dir_fd=d), 99)`),
    ),
    attempt(
      'through a descriptor of the path alone',
      python(`import os
f = os.open("secret.env", os.O_PATH | os.O_NOFOLLOW); assert b"sekret" in open("/proc/self/fd/%d" % f, "rb").read()`),
    ),
    attempt('as a copy', `cp -r conf copied && ${reads('copied/prod/db')}`),
    attempt('in an archive', finds('tar -cf - .')),
    attempt('by a search', finds('grep -rah . .')),
    attempt('by git', `git init -q r && cp keys/a.pem r/x && git -C r add x && ${finds('git -C r show :x')}`),
    attempt('by a hard link', `ln secret.env h && ${reads('h')}`),
    attempt('by a hard link of its folder entry', `ln keys/a.pem plain && ${reads('plain')}`),
    attempt('after unmounting', 'umount keys/a.pem', { dull: UNMOUNTED }),
    attempt(
      'by a bind mount',
      `mkdir -p b && mount --bind conf/prod b && { ${reads('b/db')}; r=$?; umount b; [ $r = 0 ]; }`,
    ),
    attempt(
      'by a bind mount in a namespace',
      `mkdir -p b && unshare -rm sh -c 'mount --bind ${project}/conf/prod b && grep -q sekret b/db'`,
    ),
    attempt(
      'by mapping it',
      python(
        'import mmap; f = open("secret.env", "rb"); assert mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[:6] == b"sekret"',
      ),
    ),
    attempt(
      'over it',
      'cat /dev/null > secret.env && [ ! -s secret.env ] && echo sekret > secret.env && grep -q sekret secret.env',
    ),
    attempt('by moving its folder', 'mv keys k2 && grep -q sekret k2/a.pem && mv k2 keys'),
    attempt('by moving the masked folder', 'mv conf c2 && grep -q sekret c2/prod/db'),
    attempt('by moving it', 'mv sub/.env plain2 && grep -q sekret plain2'),
  ],
};

const kept =
  (name: string): ((world: World) => boolean) =>
  ({ project }) =>
    sees(path.join(project, name)) !== 'kept\n';

/** What a write rule names: its bytes stay, and what is missing stays missing. */
const denyWrite: Check = {
  id: 'deny-write',
  place: 'host',
  request: () => ({ denyWrite: ['locked.txt', 'gen/**', '*.lock', './deploy/hooks', '~/.cache/rc'] }),
  prepare: (world) => {
    for (const name of ['locked.txt', 'gen/a/b', 'deep/x.lock']) world.file(name, 'kept\n');
    world.link('to-locked', 'locked.txt');
    return () => undefined;
  },
  works: () => [touches, attempt('write beside', 'touch deep/fine')],
  attempts: ({ project }) => [
    attempt('append', 'echo x >> locked.txt', { went: kept('locked.txt') }),
    attempt('truncate', ': > locked.txt'),
    attempt('through a link that was there', 'echo x > to-locked'),
    attempt('through a new link', 'ln -s gen/a l && echo x > l/b'),
    attempt('through /proc/self/root', `echo x > /proc/self/root${project}/gen/a/b`),
    attempt(
      'through a descriptor',
      python('import os; os.open("/proc/self/fd/%d" % os.open("locked.txt", os.O_RDONLY), os.O_WRONLY)'),
    ),
    attempt('by sed', 'sed -i s/k/x/ deep/x.lock'),
    attempt('by dd', 'dd if=/dev/zero of=locked.txt bs=1 count=1 conv=notrunc'),
    attempt('by mapping it', python('import mmap; f = open("locked.txt", "r+b"); mmap.mmap(f.fileno(), 0)[:1] = b"x"')),
    attempt('by truncate()', python('import os; os.truncate("gen/a/b", 0)')),
    attempt(
      'by copy_file_range()',
      python(
        'import os; os.copy_file_range(os.open("fine", os.O_RDONLY | os.O_CREAT), os.open("locked.txt", os.O_WRONLY), 1)',
      ),
    ),
    attempt('change permissions', 'chmod 000 locked.txt; r=$?; chmod 644 locked.txt; [ $r = 0 ]'),
    attempt('change times', 'touch -d 2001-01-01 deep/x.lock'),
    attempt('an attribute', python('import os; os.setxattr("locked.txt", "user.x", b"x")')),
    attempt('by a hard link', 'ln locked.txt h && echo x >> h'),
    attempt('by a hard link of one found by a wildcard', 'ln deep/x.lock h2 && echo x >> h2'),
    attempt('add to a folder', 'echo x > gen/new'),
    attempt('put a file over it', 'echo x > n && mv -f n locked.txt'),
    attempt('put a link over it', 'ln -sfT /etc/passwd deep/x.lock'),
    attempt('exchange it', exchange('gen', 'evil')),
    attempt('exchange the folder above', exchange('deep', 'evil2')),
    attempt('mount over it', 'mkdir -p e && mount --bind e gen && umount gen'),
    attempt('unmount it', 'umount gen', { dull: UNMOUNTED }),
    attempt('move the folder above and make it anew', 'mv deep deep2 && mkdir deep && echo x > deep/x.lock'),
    attempt('remove it', 'rm -f locked.txt'),
    attempt('remove the folder', 'rm -rf gen', { went: ({ project: at }) => !existsSync(path.join(at, 'gen/a/b')) }),
    attempt('make what is missing', 'mkdir -p deploy/hooks'),
    attempt('link what is missing', 'rmdir deploy/hooks deploy; mkdir evil3; ln -sT evil3 deploy'),
    attempt('make what is missing in the cache', 'mkdir -p ~/.cache && echo x > ~/.cache/rc'),
  ],
};

const MADE: readonly (readonly [string, string])[] = [
  ['new.pem', 'echo x > new.pem'],
  ['a/b/new.pem', 'mkdir -p a/b && echo x > a/b/new.pem'],
  ['renamed.pem', 'echo x > plain && mv plain renamed.pem'],
  ['linked.pem', 'echo x > other && ln other linked.pem'],
  ['pointer.pem', 'ln -s /etc/passwd pointer.pem'],
  ['folder.pem', 'mkdir -p folder.pem/x && touch folder.pem/x/y'],
  ['pipe.pem', 'mkfifo pipe.pem'],
  ['line\nbreak.pem', "touch 'line\nbreak.pem'"],
  ['node_modules/p/c.pem', 'mkdir -p node_modules/p && touch node_modules/p/c.pem'],
  ['readonly/d.pem', 'mkdir readonly && touch readonly/d.pem && chmod 500 readonly'],
  ['.hidden.pem', 'touch .hidden.pem'],
];

/** New files that a write rule with wildcards names do not stay in the project. */
const quarantine: Check = {
  id: 'quarantine',
  place: 'host',
  request: () => ({ denyWrite: ['*.pem'] }),
  works: () => [touches],
  attempts: () => [
    ...MADE.map(([name, text]) =>
      attempt(`make ${JSON.stringify(name)}`, text, {
        went: ({ project }) => sees(path.join(project, name)) !== undefined,
      }),
    ),
    attempt('make one whose name is no text', `touch "$(printf 'odd\\377.pem')"`, {
      went: ({ project }) => readdirSync(project).some((name) => name.startsWith('odd')),
    }),
  ],
};

/** Hardened mode shows a named minimum of the host. */
const hardened: Check = {
  id: 'hardened',
  place: 'host',
  request: () => ({ hardened: true }),
  works: () => [touches, attempt('start a program', 'python3 -c 1'), attempt('resolve the account', 'id -u')],
  attempts: ({ home, other, outside, base }) => [
    attempt('read a key of the account', reads(`${home}/.ssh/id_ed25519`)),
    attempt('read the history of the account', reads(`${home}/.bash_history`)),
    attempt('list the home', `ls -A ${quoted(home)} | grep -q ssh`),
    attempt('read another project', reads(`${other}/plan.txt`)),
    attempt('read beside the project', `cat ${quoted(outside)}/victim`),
    attempt('list beside the project', `ls ${quoted(base)} | grep -q outside`),
    attempt('list the system', 'ls /var/log /srv /root /home /boot /etc/ssh /etc/systemd | grep -q .'),
    attempt('read the machine', 'cat /etc/machine-id || cat /etc/hostname'),
    attempt('see devices of the host', 'ls /sys/class/net | grep -q .'),
    attempt('write at the root', 'mkdir /evil && rmdir /evil', { dull: 'an ordinary account cannot either' }),
    attempt('search everything for it', finds(`grep -rah sekret ${quoted(base)}`)),
  ],
};

export const projectChecks: readonly Check[] = [metadata, denyRead, denyWrite, quarantine, hardened];
