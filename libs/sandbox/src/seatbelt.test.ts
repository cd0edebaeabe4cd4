import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bwrapArgv } from './bwrap-argv.ts';
import { type Places, PROFILES, type Profile } from './places.ts';
import { evaluateSbpl, type SbplUse } from './sbpl-evaluator.ts';
import { readSbpl } from './sbpl-reader.ts';
import { quotePath, type SeatbeltFacts, seatbeltArgv, seatbeltProfile } from './seatbelt.ts';
import { wsl2Argv, wslPath } from './wsl2-argv.ts';

const home = '/Users/dev';
const project = '/Users/dev/app';
const places: Places = {
  project,
  temp: '/private/tmp',
  cache: '/Users/dev/Library/Caches',
  home,
  installation: '/opt/countersign',
  state: '/Users/dev/.local/state/countersign-sandbox',
};

const facts = (change: Partial<SeatbeltFacts> = {}): SeatbeltFacts => ({
  profile: 'workspace-write',
  places,
  readOnly: [`${project}/.git`, `${project}/.agents`, `${project}/vendor/lib/.git`],
  masked: [`${home}/.aws`, `${project}/.env`],
  ...change,
});

const rulesOf = (change: Partial<SeatbeltFacts> = {}) => {
  const read = readSbpl(seatbeltProfile(facts(change)));
  if (!read.ok) throw new Error(read.error);
  return read.value;
};

const cases: Readonly<Record<string, Partial<SeatbeltFacts>>> = {
  ...Object.fromEntries(
    PROFILES.map((profile) => [profile, { profile, ...(profile === 'networked' ? { proxyPort: 3128 } : {}) }]),
  ),
  hardened: { visible: ['/usr', '/bin', '/System', '/Library'] },
  'odd-names': {
    places: { ...places, project: '/Users/dev/My "app" (v1.2)\\x\n%20 ä' },
    readOnly: ['/Users/dev/My "app" (v1.2)\\x\n%20 ä/.git'],
  },
};

describe('the Seatbelt profile', () => {
  it.each(Object.entries(cases))('%s is exactly the golden file', async (name, change) => {
    await expect(seatbeltProfile(facts(change))).toMatchFileSnapshot(`./testdata/seatbelt-${name}.sb`);
  });

  const write = (path: string): SbplUse => ({ operation: 'file-write-data', path });
  const read = (path: string): SbplUse => ({ operation: 'file-read-data', path });
  const rename = (path: string): SbplUse => ({ operation: 'file-write-unlink', path });
  const connect = (host: string, port: number): SbplUse => ({ operation: 'network-outbound', host, port });
  const all: readonly Profile[] = PROFILES;
  const writers: readonly Profile[] = ['workspace-write', 'networked', 'full-access'];

  it.each<[string, SbplUse, readonly Profile[]]>([
    ['a write in the project', write(`${project}/src/a`), writers],
    ['a write in temp', write('/private/tmp/a'), all],
    ['a write in the cache', write(`${places.cache}/npm/a`), all],
    ['a write to /dev/null', write('/dev/null'), all],
    ['a write beside the project', write('/Users/dev/app2/a'), ['full-access']],
    ['a write in the home', write(`${home}/.zshrc`), ['full-access']],
    ['a write to the system', write('/etc/hosts'), ['full-access']],
    ['a write of a hook', write(`${project}/.git/hooks/x`), []],
    ['the making of a missing protected name', { operation: 'file-write-create', path: `${project}/.agents` }, []],
    ['a write of a nested git folder', write(`${project}/vendor/lib/.git/config`), []],
    ['the removal of a git folder', rename(`${project}/.git`), []],
    ['the renaming of a folder above a git folder', rename(`${project}/vendor/lib`), []],
    ['a write beside a nested git folder', write(`${project}/vendor/lib/a`), writers],
    ['the renaming of another folder', rename(`${project}/src`), writers],
    ['a write of the installation', write('/opt/countersign/bin/x'), []],
    ['reading the system', read('/etc/hosts'), all],
    ['reading a masked file', read(`${project}/.env`), []],
    ['reading in a masked folder', read(`${home}/.aws/credentials`), []],
    ['reading our own state', read(`${places.state}/spool/x`), []],
    ['a connection to the internet', connect('example.com', 443), ['full-access']],
    ['a connection to the proxy', connect('localhost', 3128), ['networked', 'full-access']],
    ['a connection to another port of the host', connect('127.0.0.1', 22), ['full-access']],
    [
      'a connection to a Unix socket',
      { operation: 'network-outbound', unixSocket: '/var/run/docker.sock' },
      ['full-access'],
    ],
    ['a port of its own', { operation: 'network-bind', host: '*', port: 80 }, ['full-access']],
    ['a service of the desktop', { operation: 'mach-lookup', service: 'com.apple.SecurityServer' }, []],
    ['a fork', { operation: 'process-fork' }, all],
  ])('decides %s', (_, use, allowed) => {
    const found = PROFILES.filter((profile) => evaluateSbpl(rulesOf(cases[profile] ?? {}), use) === 'allow');
    expect(found).toEqual(PROFILES.filter((profile) => allowed.includes(profile)));
  });

  it('shows in hardened mode what is named, and the project', () => {
    const rules = rulesOf(cases.hardened);
    const shown = ['/usr/lib/a', `${project}/a`, `${home}/.ssh/id`, '/Users/other/a', `${project}/.env`];
    expect(shown.map((path) => evaluateSbpl(rules, read(path)))).toEqual(['allow', 'allow', 'deny', 'deny', 'deny']);
  });

  it('reads back every path exactly, whatever is in it', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), (name) => {
        const path = `/${name.replaceAll('\0', '')}x`;
        const text = `(version 1)(deny default)(deny file-write* (subpath ${quotePath(path)}))`;
        expect(readSbpl(text)).toEqual({
          ok: true,
          value: [{ action: 'deny', operation: 'file-write*', filters: [{ kind: 'subpath', path }] }],
        });
      }),
    );
  });

  it('is started without a shell', () => {
    expect(seatbeltArgv('/p.sb', ['/bin/echo', '$(id)'])).toEqual([
      '/usr/bin/sandbox-exec',
      '-f',
      '/p.sb',
      '/bin/echo',
      '$(id)',
    ]);
  });
});

describe('readSbpl', () => {
  const head = '(version 1)(deny default)';

  it.each([
    ['', 'version'],
    ['(version 1)(allow default)', 'deny default'],
    [`${head}(allow default)`, 'without a filter'],
    [`${head}(allow file-write*)`, 'without a filter'],
    [`${head}(allow network*)`, 'without a filter'],
    [`${head}(allow file-write* (subpath (param "P")))`, 'a string is missing'],
    [`${head}(allow file-write* (regex "x"))`, 'unknown filter'],
    [`${head}(allow file-write* (subpath "relative"))`, 'not absolute'],
    [`${head}(allow file-teleport (subpath "/"))`, 'unknown operation'],
    [`${head}(permit file-read* (subpath "/"))`, 'unknown action'],
    [`${head}(import "system.sb")`, 'unknown action'],
    [`${head}(allow file-read* (subpath "/a)`, 'does not end'],
    [`${head}(allow file-read* (subpath "/")`, 'not closed'],
    [`${head})`, 'closes nothing'],
    [`${head}#t`, 'unexpected'],
  ])('refuses `%s`', (text, reason) => {
    expect(readSbpl(text)).toEqual({ ok: false, error: expect.stringContaining(reason) });
  });
});

describe('bubblewrap in WSL2', () => {
  it('is exactly the golden file', async () => {
    const argv = bwrapArgv({
      ...{
        profile: 'workspace-write',
        cwd: '/mnt/c/work/app',
        readOnly: ['/mnt/c/work/app/.git'],
        maskedFolders: [],
        maskedFiles: [],
      },
      places: {
        ...places,
        project: '/mnt/c/work/app',
        temp: '/tmp',
        cache: '/home/dev/.cache',
        home: '/home/dev',
        state: '/home/dev/.local/state/countersign-sandbox',
      },
      ...{
        maskedSockets: [],
        emptyFile: '/s/empty',
        overlays: [],
        privateTemp: false,
        canDisableUserns: true,
        seccompFd: 3,
        statusFd: 4,
      },
    });
    const all = wsl2Argv({ distribution: 'Ubuntu', user: 'dev' }, ['/usr/bin/bwrap', ...argv], {
      PATH: '/usr/bin:/bin',
      HOME: '/home/dev',
    });
    await expect(`${all.join(' ').replaceAll(' --', '\n--')}\n`).toMatchFileSnapshot('./testdata/wsl2.txt');
  });

  it.each([
    ['C:\\work\\My app', '/mnt/c/work/My app'],
    ['d:/x//y/', '/mnt/d/x/y'],
    ['C:\\', '/mnt/c'],
    ['C:\\a\\..\\b', undefined],
    ['\\\\server\\share', undefined],
    ['relative', undefined],
    ['C:\\a|b', undefined],
  ])('names `%s`', (windows, linux) => {
    expect(wslPath(windows)).toBe(linux);
  });
});
