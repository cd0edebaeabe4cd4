import { describe, expect, it } from 'vitest';
import { bwrapArgv, type SandboxFacts } from './bwrap-argv.ts';
import { sandboxEnvironment } from './environment.ts';
import { limitedCommand } from './limited-command.ts';
import { checkPlaces, type Places, PROFILES } from './places.ts';

const places: Places = {
  project: '/home/u/p',
  temp: '/tmp',
  cache: '/home/u/.cache',
  home: '/home/u',
  installation: '/opt/countersign',
  state: '/home/u/.local/state/countersign/sandbox',
};

const facts = (change: Partial<SandboxFacts> = {}): SandboxFacts => ({
  profile: 'workspace-write',
  places,
  cwd: '/home/u/p',
  readOnly: ['/home/u/p/.git'],
  maskedFolders: [],
  maskedFiles: [],
  maskedSockets: [],
  privateTemp: false,
  emptyFile: '/state/empty',
  overlays: [],
  canDisableUserns: true,
  seccompFd: 3,
  statusFd: 4,
  ...change,
});

const mounts = (change: Partial<SandboxFacts>): string[] =>
  bwrapArgv(facts(change))
    .join(' ')
    .split(/ (?=--)/)
    .filter((text) => /^--(ro-bind|bind|tmpfs)/.test(text));

describe('bwrapArgv', () => {
  it('gives the whole argument list of an ordinary project', () => {
    expect(bwrapArgv(facts()).join(' ')).toBe(
      '--die-with-parent --new-session --unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try ' +
        '--disable-userns --unshare-net --cap-drop ALL --ro-bind / / --bind /tmp /tmp ' +
        '--bind /home/u/.cache /home/u/.cache --bind /home/u/p /home/u/p --ro-bind /home/u/p/.git /home/u/p/.git ' +
        '--tmpfs /home/u/.local/state/countersign/sandbox --remount-ro /home/u/.local/state/countersign/sandbox ' +
        '--dev /dev --proc /proc --remount-ro /proc --chdir /home/u/p --seccomp 3 --json-status-fd 4',
    );
  });

  it('shows what must be seen below a temp folder of its own, still without its masked parts and below the project', () => {
    const shown = mounts({
      places: { ...places, project: '/tmp/inst/p' },
      ...{
        visible: ['/usr', '/tmp/inst'],
        privateTemp: true,
        readOnly: [],
        maskedFiles: ['/tmp/inst/key', '/tmp/other'],
      },
    });
    const last = (text: string) => shown.findLastIndex((each) => each.includes(text));
    const order = ['--tmpfs /tmp', '--ro-bind /tmp/inst /tmp/inst', '--bind /tmp/inst/p', '/state/empty /tmp/inst/key'];
    expect(order.map(last)).toEqual(order.map(last).toSorted((a, b) => a - b));
    expect([last('--tmpfs /tmp') >= 0, last('/tmp/other')]).toEqual([true, -1]);
  });

  it('pins the folders above a protected path before the writable bind', () => {
    expect(mounts({ readOnly: ['/home/u/p/a/b/.git'] })).toEqual([
      '--ro-bind / /',
      '--ro-bind /home/u/p/a /home/u/p/a',
      '--ro-bind /home/u/p/a/b /home/u/p/a/b',
      '--bind /tmp /tmp',
      '--bind /home/u/.cache /home/u/.cache',
      '--bind /home/u/p /home/u/p',
      '--ro-bind /home/u/p/a/b/.git /home/u/p/a/b/.git',
      '--tmpfs /home/u/.local/state/countersign/sandbox',
    ]);
  });

  it('pins the folders above a project that lies in the temp folder', () => {
    const inTemp = { ...places, project: '/tmp/x/p' };
    expect(mounts({ places: inTemp, readOnly: ['/tmp/x/p/.git'] }).slice(0, 4)).toEqual([
      '--ro-bind / /',
      '--ro-bind /tmp/x /tmp/x',
      '--ro-bind /tmp/x/p /tmp/x/p',
      '--bind /tmp /tmp',
    ]);
  });

  it('never binds the project writable in the read-only profile, also below temp', () => {
    const inTemp = { ...places, project: '/tmp/p' };
    const given = mounts({ profile: 'read-only', places: inTemp, readOnly: [] });
    expect(given).toContain('--ro-bind /tmp/p /tmp/p');
    expect(given).not.toContain('--bind /tmp/p /tmp/p');
  });

  it('closes a writable root that a read-only path covers, and leaves no read-only bind of `/` behind the masks', () => {
    expect(mounts({ readOnly: ['/'] })).toEqual(['--ro-bind / /', '--tmpfs /home/u/.local/state/countersign/sandbox']);
  });

  it('keeps the installation read-only below a writable root', () => {
    const given = mounts({ places: { ...places, installation: '/tmp/inst' } });
    expect(given.indexOf('--ro-bind /tmp/inst /tmp/inst')).toBeGreaterThan(given.indexOf('--bind /tmp /tmp'));
  });

  it('masks files with the empty file and folders with an empty folder', () => {
    const given = mounts({ maskedFolders: ['/secret', '/secret/deep'], maskedFiles: ['/etc/key', '/secret/file'] });
    expect(given.filter((text) => /secret|key/.test(text))).toEqual([
      '--tmpfs /secret',
      '--ro-bind /state/empty /etc/key',
    ]);
  });

  it('shows an overlay in the place of a file', () => {
    const overlays = [{ source: '/state/passwd', target: '/etc/passwd' }];
    expect(mounts({ overlays })).toContain('--ro-bind /state/passwd /etc/passwd');
  });

  it('passes the command as arguments', () => {
    expect(limitedCommand(['/bin/echo', '$(id); x']).slice(-2)).toEqual(['/bin/echo', '$(id); x']);
  });
});

describe('the arguments of each profile', () => {
  const rich = (change: Partial<SandboxFacts>): Partial<SandboxFacts> => ({
    places: { ...places, project: '/tmp/x/p', installation: '/tmp/inst' },
    cwd: '/tmp/x/p/src',
    readOnly: ['/tmp/x/p/.git', '/tmp/x/p/vendor/lib/.git'],
    maskedFolders: ['/home/u/.ssh', '/tmp/x/p/secrets'],
    maskedFiles: ['/home/u/.netrc', '/tmp/x/p/.env'],
    ...change,
  });
  const bridge = { node: '/opt/node', script: '/opt/bridge.mjs' };
  const visible = ['/usr', '/etc/hosts', '/home/u/main/.git'];
  const cases: Readonly<Record<string, Partial<SandboxFacts>>> = {
    ...Object.fromEntries(
      PROFILES.map((profile) => [profile, rich({ profile, ...(profile === 'networked' ? { bridge } : {}) })]),
    ),
    hardened: rich({ visible }),
    'hardened-read-only': rich({ visible, profile: 'read-only' }),
    'private-folders': rich({ privateTemp: true, privateCache: '/state/caches/1' }),
    'unix-mask': rich({ maskedSockets: ['/run/docker.sock', '/tmp/ssh-1/agent.1', '/home/u/.ssh/control'] }),
    'wsl2-and-old-binary': rich({
      canDisableUserns: false,
      overlays: [{ source: '/s/passwd', target: '/etc/passwd' }],
    }),
  };

  it.each(Object.entries(cases))('%s is exactly the golden file', async (name, change) => {
    const text = bwrapArgv(facts(change)).join(' ').replaceAll(' --', '\n--');
    await expect(`${text}\n`).toMatchFileSnapshot(`./testdata/bwrap-${name}.txt`);
  });

  it('shows no folder of the host in hardened mode that the minimum does not name', () => {
    const bound = mounts(rich({ visible })).flatMap((text) => (/^--(ro-)?bind (\S+)/.exec(text) ?? [])[2] ?? []);
    const allowed = [...visible, '/tmp', '/home/u/.cache', '/tmp/x', '/tmp/x/p', '/state/empty', '/tmp/inst'];
    expect(bound.filter((path) => !allowed.includes(path) && !path.startsWith('/tmp/x/p/'))).toEqual([]);
  });

  it('shares the network in `full-access` alone', () => {
    const shared = PROFILES.filter((profile) => !bwrapArgv(facts(rich({ profile }))).includes('--unshare-net'));
    expect(shared).toEqual(['full-access']);
  });

  it('masks the state of the sandboxes in every profile', () => {
    for (const profile of PROFILES) {
      expect(mounts(rich({ profile }))).toContain('--tmpfs /home/u/.local/state/countersign/sandbox');
    }
  });
});

describe('checkPlaces', () => {
  it.each<[string, Partial<Places>]>([
    ['the root', { project: '/' }],
    ['the home', { project: '/home/u' }],
    ['an ancestor of the home', { project: '/home' }],
    ['a system folder', { project: '/etc/nginx' }],
    ['the temp folder itself', { project: '/tmp' }],
    ['the installation', { project: '/opt/countersign' }],
    ['what holds the installation', { project: '/srv/x', installation: '/srv/x/node_modules/countersign' }],
    ['a folder of the installation', { project: '/opt/countersign/tools' }],
    ['a temp folder that is the home', { temp: '/home/u' }],
    ['a cache folder that holds the home', { cache: '/home' }],
    ['a cache folder of the system', { cache: '/etc' }],
    ['a git folder', { project: '/home/u/p/.git' }],
    ['a folder below protected names', { project: '/home/u/p/.git/modules/x' }],
    ['state in a writable root', { state: '/tmp/state' }],
  ])('refuses %s', (_, change) => {
    expect(checkPlaces({ ...places, ...change }, 'workspace-write')).toMatchObject({
      ok: false,
      error: { code: 'bad_root' },
    });
  });

  it('accepts an ordinary project', () => {
    expect(checkPlaces(places, 'workspace-write').ok).toBe(true);
  });
});

describe('sandboxEnvironment', () => {
  it("passes what a policy names, and never what is the runner's own", () => {
    const source = { NPM_TOKEN: 't', NPM_CONFIG_REGISTRY: 'r', COUNTERSIGN_CONFIG: '/c', OTHER: 'x' };
    const names = ['NPM_*', 'COUNTERSIGN_CONFIG'];
    const given = sandboxEnvironment(source, { profile: 'workspace-write', places, names });
    expect(given).toMatchObject({ NPM_TOKEN: 't', NPM_CONFIG_REGISTRY: 'r' });
    expect(Object.keys(given)).not.toContain('COUNTERSIGN_CONFIG');
    expect(Object.keys(given)).not.toContain('OTHER');
  });

  it("passes everything but what is the runner's own in `full-access`", () => {
    const source = { GITHUB_TOKEN: 't', COUNTERSIGN_TOKEN: 'c', NODE_CHANNEL_FD: '3' };
    const given = sandboxEnvironment(source, { profile: 'full-access', places });
    expect(given).toMatchObject({ GITHUB_TOKEN: 't', HOME: '/home/u' });
    expect(given).not.toHaveProperty('COUNTERSIGN_TOKEN');
    expect(given).not.toHaveProperty('NODE_CHANNEL_FD');
  });

  it('names the proxy in `networked`, for every spelling of the variables', () => {
    const given = sandboxEnvironment({ http_proxy: 'http://evil' }, { profile: 'networked', places });
    expect([given.http_proxy, given.HTTPS_PROXY, given.ALL_PROXY, given.no_proxy]).toEqual([
      'http://127.0.0.1:3128',
      'http://127.0.0.1:3128',
      'socks5h://127.0.0.1:3128',
      '',
    ]);
  });

  it('passes the allowlist only', () => {
    const secrets = {
      GITHUB_TOKEN: 't',
      SSH_AUTH_SOCK: '/s',
      NODE_OPTIONS: 'x',
      LD_PRELOAD: 'x',
      BASH_ENV: 'x',
      LC_: 'x',
    };
    const given = sandboxEnvironment(
      { ...secrets, PATH: '/bin', LANG: 'C', LC_ALL: 'C', HOME: '/elsewhere' },
      { profile: 'workspace-write', places },
    );
    expect(given).toEqual({
      PATH: '/bin',
      LANG: 'C',
      LC_ALL: 'C',
      HOME: '/home/u',
      TMPDIR: '/tmp',
      XDG_CACHE_HOME: '/home/u/.cache',
      npm_config_cache: '/home/u/.cache/npm',
      GIT_OPTIONAL_LOCKS: '0',
      GIT_TERMINAL_PROMPT: '0',
      GIT_EDITOR: 'false',
      GIT_SEQUENCE_EDITOR: 'false',
      EDITOR: 'false',
      VISUAL: 'false',
      PAGER: 'cat',
      GIT_PAGER: 'cat',
    });
  });
});
